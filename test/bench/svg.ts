import type { Figure } from './figures.ts'
import type { Spread } from './stats.ts'

/** A case and its figures, as far as they can be drawn. */
export interface Drawn {
  readonly title: string
  readonly figures: readonly Figure[]
}

interface Bar {
  readonly title: string
  readonly figure: string
  readonly value: Spread
  readonly target: number
}

const heading = 'Tollgate as a multiple of what stands beside it; a line marks the target'
const grey = '#7d8590'
const width = 760
const left = 350
const step = 40
const top = 40

/** Each ratio to another lane as a bar, with a line at its target. The colours can be read on white and on black. */
export const draw = (cases: readonly Drawn[], footnote: string): string => {
  const bars = cases.flatMap(({ title, figures }) => figures.flatMap(figure => barOf(title, figure)))
  const most = Math.max(...bars.map(({ value, target }) => Math.max(value.median, target))) * 1.15
  const scale = (ratio: number): number => left + (ratio / most) * (width - left - 50)
  const height = top + bars.length * step + 30
  const frame = `viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13" fill="${grey}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${frame}>
<text x="10" y="20" font-size="15" font-weight="bold">${heading}</text>
${bars.map((bar, i) => drawBar(bar, top + i * step, scale)).join('\n')}
<text x="10" y="${height - 10}" font-size="11">${escapeXml(footnote)}</text>
</svg>
`
}

const barOf = (title: string, { title: figure, unit, value, target }: Figure): readonly Bar[] =>
  unit !== '×' || value === undefined || target === undefined ? [] : [{ title, figure, value, target }]

const drawBar = ({ title, figure, value, target }: Bar, y: number, scale: (ratio: number) => number): string => {
  const [end, mark] = [scale(value.median), scale(target)]
  const colour = value.median <= target ? '#2da44e' : '#d1642e'
  return `<text x="10" y="${y + 14}">${escapeXml(title)}</text>
<text x="10" y="${y + 29}" font-size="11">${escapeXml(figure)}</text>
<rect x="${left}" y="${y + 4}" width="${round(end - left)}" height="24" fill="${colour}"/>
<path d="M${round(mark)} ${y}v32" stroke="${grey}" stroke-width="2"/>
<text x="${round(Math.max(end, mark) + 8)}" y="${y + 21}">${value.median.toFixed(2)} × (≤ ${target})</text>`
}

const round = (value: number): string => value.toFixed(1)

const escapeXml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
