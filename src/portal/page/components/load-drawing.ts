import { loadLater } from './load-later.tsx'

/** What charts are drawn with. With the library it is a quarter of the page: only pages that have charts load it. */
export const drawing = loadLater(() => import('./plot.tsx'))
