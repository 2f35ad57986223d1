export { ConfirmEmail } from './confirm-email.tsx'
export { SignIn } from './sign-in.tsx'
export { Status } from './status.tsx'
