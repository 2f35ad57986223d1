import { loadLater } from '../components/load-later.tsx'

/** Few who look at an account change it. */
export const accountForms = loadLater(() => import('./account-forms.ts'))
