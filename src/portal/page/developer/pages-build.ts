export { Keys, KeysActions } from './keys.tsx'
export { Networks } from './networks.tsx'
export { TryIt } from './try-it.tsx'
