import type { Path } from '../plugin/plugin.ts'

/** The path as a JSON pointer (RFC 6901), as Ajv writes it: `/upstreams/0/url`. */
export const jsonPointer = (path: Path): string => path.map(part => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

/** The path of a JSON pointer; whole numbers become positions of a list. */
export const parseJsonPointer = (pointer: string): Path =>
  pointer
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map(part => (/^\d{1,9}$/.test(part) ? Number(part) : part))
