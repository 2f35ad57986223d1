import { loadLater } from '../components/load-later.tsx'

/** What is looked up now and then. It needs nothing of other files that are loaded later. */
export const recordsFile = loadLater(() => import('./pages-records.ts'))
