export { Audit } from './audit.tsx'
export { Configuration } from './configuration.tsx'
export { Requests } from './requests.tsx'
