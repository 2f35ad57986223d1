import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { request } from '../request.ts'

/** Removes what has this path, and reads the list again; `error` says why that was refused. */
export const useRemove = (reload: () => void) => {
  const error = useSignal<string | undefined>(undefined)
  const removing = useRef(new Set<string>()).current
  const remove = async (path: string): Promise<void> => {
    // To the second click, what the first one removes would not be there.
    if (removing.has(path)) return
    removing.add(path)
    try {
      await request('DELETE', path)
      error.value = undefined
      reload()
    } catch (reason) {
      removing.delete(path)
      error.value = (reason as Error).message // request() throws nothing else
    }
  }
  return { error, remove: (path: string) => void remove(path) }
}
