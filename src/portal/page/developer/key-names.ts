import type { OwnKeyJson } from '../../routes/keys.ts'
import { useRequest } from '../request.ts'

/** What people know a key by: keys may have the same name, as a key and the one that was rotated. */
export const nameOfKey = ({ name, hint }: Pick<OwnKeyJson, 'name' | 'hint'>): string => `${name} …${hint}`.trim()

/** The keys of the account by their ids, and their names, once they are needed. */
export const useKeyNames = (areNeeded = true) => {
  const keys = useRequest<readonly OwnKeyJson[]>(areNeeded ? '/keys' : undefined)
  const byId = new Map(keys.data.value?.map(key => [key.id, key]))
  return {
    byId,
    nameOf: (id: string): string => {
      const key = byId.get(id)
      return key === undefined ? id : nameOfKey(key)
    },
  }
}

export type KeysById = ReturnType<typeof useKeyNames>['byId']

/** The key of the account that this is, where its last characters say so. */
export const keyOfAccount = (key: string, keys: KeysById): OwnKeyJson | undefined =>
  [...keys.values()].find(({ hint }) => key.endsWith(hint))
