import type { Figure } from './figures.ts'
import type { Spread } from './figures.ts'

/** What is drawn of a case. */
export interface ChartCase {
  readonly title: string
  readonly figures: readonly Figure[]
}

interface Bar {
  readonly title: string
  readonly figure: string
  readonly value: Spread
  readonly target: number
}

const heading = 'Tollgate as a multiple of its baseline; a line marks the target'
/** Legible on white and on black. */
const gray = '#7d8590'
const metColor = '#2da44e'
const missedColor = '#d1642e'

const chartWidthPx = 760
const barsLeftPx = 350
const barHeightPx = 40
const barsTopPx = 40

/** Each ratio to another scenario as a bar, with a line at its target. */
export const drawSvg = (cases: readonly ChartCase[], footnote: string): string => {
  const bars = cases.flatMap(({ title, figures }) => figures.flatMap(figure => barsOf(title, figure)))
  const maxRatio = Math.max(...bars.map(({ value, target }) => Math.max(value.median, target))) * 1.15
  const scale = (ratio: number): number => barsLeftPx + (ratio / maxRatio) * (chartWidthPx - barsLeftPx - 50)
  const height = barsTopPx + bars.length * barHeightPx + 30
  const frame = `viewBox="0 0 ${chartWidthPx} ${height}" font-family="sans-serif" font-size="13" fill="${gray}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${frame}>
<text x="10" y="20" font-size="15" font-weight="bold">${heading}</text>
${bars.map((bar, i) => drawBar(bar, barsTopPx + i * barHeightPx, scale)).join('\n')}
<text x="10" y="${height - 10}" font-size="11">${escapeXml(footnote)}</text>
</svg>
`
}

const barsOf = (title: string, { title: figure, unit, value, target }: Figure): readonly Bar[] =>
  unit !== '×' || value === undefined || target === undefined ? [] : [{ title, figure, value, target }]

const drawBar = ({ title, figure, value, target }: Bar, y: number, scale: (ratio: number) => number): string => {
  const [end, mark] = [scale(value.median), scale(target)]
  const color = value.median <= target ? metColor : missedColor
  return `<text x="10" y="${y + 14}">${escapeXml(title)}</text>
<text x="10" y="${y + 29}" font-size="11">${escapeXml(figure)}</text>
<rect x="${barsLeftPx}" y="${y + 4}" width="${formatPx(end - barsLeftPx)}" height="24" fill="${color}"/>
<path d="M${formatPx(mark)} ${y}v32" stroke="${gray}" stroke-width="2"/>
<text x="${formatPx(Math.max(end, mark) + 8)}" y="${y + 21}">${value.median.toFixed(2)} × (≤ ${target})</text>`
}

const formatPx = (value: number): string => value.toFixed(1)

const escapeXml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
