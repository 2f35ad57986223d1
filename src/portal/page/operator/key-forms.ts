export { ChangeKey } from '../components/change-key.tsx'
export { CreateKey } from '../components/key-form.tsx'
