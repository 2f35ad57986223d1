export { Errors } from './errors.tsx'
export { Overview } from './overview.tsx'
export { Requests } from './requests.tsx'
export { Usage } from './usage.tsx'
