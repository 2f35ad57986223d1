import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { contrastOf, formatColor, mixColors, parseColor, withContrast } from '../util/colors.ts'

/** `portal.brand` of gateway.yaml: what the dashboard shows in place of Tollgate. */
export interface BrandOptions {
  readonly name?: string
  /** The path of an image. */
  readonly logo?: string
  readonly accent?: string
  /** A URL. */
  readonly support?: string
}

/** A file that the page loads, with a name that changes with its content. */
interface BrandFile {
  readonly path: string
  readonly bytes: Buffer
}

export type NamedBrand = Pick<BrandOptions, 'name'>

/** What is added to the page. */
export interface Brand extends NamedBrand {
  readonly files: readonly BrandFile[]
  addTo(html: string): string
}

/** In mail. */
export const nameOf = (brand: NamedBrand | undefined): string => brand?.name ?? 'Tollgate'

/** The logo is read now. Throws where that fails; the check of the configuration has read it too. */
export const createBrand = (options: BrandOptions): Brand => {
  const { name, logo, accent, support } = options
  const image = logo === undefined ? undefined : brandFile(extname(logo).toLowerCase(), readFileSync(logo))
  const css = accent === undefined ? undefined : brandFile('.css', Buffer.from(accentCss(accent)))
  return {
    ...(name !== undefined && { name }),
    files: [image, css].filter(file => file !== undefined),
    addTo(html) {
      return addAttributes(html, { name, logo: image?.path, support })
        .replace(/<title>.*<\/title>/, `<title>${escapeHtml(nameOf(options))}</title>`)
        .replace(/(<link\s+rel="icon"\s+href=")[^"]*/, (found, start) => (image === undefined ? found : `${start}${image.path}`))
        .replace('</head>', css === undefined ? '</head>' : `<link rel="stylesheet" href="${css.path}">\n  </head>`)
    },
  }
}

/** The operator's page is Tollgate's, and says which gateway it is, before anybody signs in too. */
export const nameGateway = (host: string): Brand => ({ files: [], addTo: html => addAttributes(html, { host }) })

const addAttributes = (html: string, attributes: Readonly<Record<string, string | undefined>>): string => {
  const written = Object.entries(attributes).flatMap(([key, value]) => (value === undefined ? [] : [` data-${key}="${escapeHtml(value)}"`]))
  return html.replace('<html', `<html${written.join('')}`)
}

const brandFile = (extension: string, bytes: Buffer): BrandFile => ({
  path: `/assets/brand-${hash('sha256', bytes).slice(0, 8)}${extension}`,
  bytes,
})

const escapeHtml = (text: string): string => text.replace(/[&<>"]/g, char => `&#${char.charCodeAt(0)};`)

const white = [255, 255, 255] as const
/** More than WCAG AA asks for: backgrounds are rounded when they are written. */
const minContrast = 4.7

/** As `--surface` and `--canvas` of src/portal/page/design/tokens.css have them in the dark theme. */
const darkSurface = [0x14, 0x18, 0x1f] as const
const darkCanvas = [0x0c, 0x0f, 0x14] as const

/** The tokens of the accent, from one color that has enough contrast to white: in the dark theme it is as light as it must be there. */
const accentCss = (accent: string): string => {
  const color = parseColor(accent)
  if (color === undefined) throw new Error(`${accent} is no color`)
  const soft = mixColors(white, color, 0.1)
  const light = tokens({
    accent: color,
    'accent-hover': mixColors(color, [0, 0, 0], 0.15),
    'on-accent': white,
    'accent-text': withContrast(color, [0, 0, 0], () => [soft], minContrast),
    'accent-soft': soft,
  })
  const darkSoft = mixColors(darkSurface, color, 0.25)
  const lit = withContrast(color, white, () => [darkSurface, darkSoft], minContrast)
  const dark = tokens({
    accent: lit,
    'accent-hover': mixColors(lit, white, 0.2),
    'on-accent': contrastOf(lit, darkCanvas) > contrastOf(lit, white) ? darkCanvas : white,
    'accent-text': lit,
    'accent-soft': darkSoft,
  })
  return [
    `:root{${light}}`,
    `@media (prefers-color-scheme:dark){:root:not([data-theme=light]){${dark}}}`,
    `:root[data-theme=dark]{${dark}}`,
  ].join('\n')
}

const tokens = (colors: Readonly<Record<string, Parameters<typeof formatColor>[0]>>): string =>
  Object.entries(colors)
    .map(([name, color]) => `--${name}:${formatColor(color)}`)
    .join(';')
