// Pages that are opened after the others, in one file of their own.

export { Access } from './access.tsx'
export { Alerts } from './alerts.tsx'
export { Errors } from './errors.tsx'
export { Requests } from './requests.tsx'
