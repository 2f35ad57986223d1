import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { texts } from '../texts.ts'
import { Notice } from './controls.tsx'

const retryIntervalMs = 3_000

interface UnavailableProps {
  /** Why nothing could be loaded. */
  readonly reason: string
  load(): Promise<void>
}

/** Before anything is known: the gateway or its store is unreachable. Loads again until that succeeds. */
export const Unavailable = ({ reason, load }: UnavailableProps) => {
  const shown = useSignal(reason)
  useEffect(() => {
    const retry = () =>
      load().catch((error: Error) => {
        shown.value = error.message
      })
    const timer = setInterval(() => void retry(), retryIntervalMs)
    return () => clearInterval(timer)
  }, [])
  return (
    <main class="sign-in" id="content">
      <h1>{texts.product}</h1>
      <Notice text={shown.value} />
    </main>
  )
}
