export { Audit } from './audit.tsx'
export { Configuration } from './configuration.tsx'
