/** Red, green and blue, each from 0 to 255. */
type Color = readonly [red: number, green: number, blue: number]

/** `#rrggbb` or `#rgb`; undefined for any other text. */
export const parseColor = (text: string): Color | undefined => {
  const [, digits = ''] = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(text) ?? []
  const parts = digits.match(digits.length === 3 ? /./g : /../g)?.map(part => Number.parseInt(part.padStart(2, part), 16))
  const [red, green, blue] = parts ?? []
  return red === undefined || green === undefined || blue === undefined ? undefined : [red, green, blue]
}

export const formatColor = (color: Color): string => `#${color.map(part => Math.round(part).toString(16).padStart(2, '0')).join('')}`

/** `share` of the second color in the first one. */
export const mixColors = ([r, g, b]: Color, [otherR, otherG, otherB]: Color, share: number): Color => [
  r + (otherR - r) * share,
  g + (otherG - g) * share,
  b + (otherB - b) * share,
]

/** Relative luminance, as WCAG 2 defines it. */
const luminanceOf = (color: Color): number => {
  const [r, g, b] = color.map(part => {
    const share = part / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b! // a color has three parts
}

/** From 1 to 21, as WCAG 2 defines it. */
export const contrastOf = (one: Color, other: Color): number => {
  const [low = 0, high = 0] = [luminanceOf(one), luminanceOf(other)].sort((a, b) => a - b)
  return (high + 0.05) / (low + 0.05)
}

/** What WCAG 2 AA asks of texts. */
export const minTextContrast = 4.5

const maxMixSteps = 50

/** The color, or the nearest to it on the way to `goal` that has at least this contrast to each of the backgrounds. */
export const withContrast = (
  color: Color,
  goal: Color,
  backgroundsOf: (color: Color) => readonly Color[],
  minContrast = minTextContrast,
): Color => {
  const steps = Array.from({ length: maxMixSteps + 1 }, (_, i) => mixColors(color, goal, i / maxMixSteps))
  // As it is written: what is rounded may have less.
  const rounded = steps.map(step => parseColor(formatColor(step)) ?? step)
  return rounded.find(step => backgroundsOf(step).every(background => contrastOf(step, background) >= minContrast)) ?? goal
}
