import { useSignal } from '@preact/signals'
import type { RequestError } from './request.ts'

/** Sends a form once, also when it is clicked again before the answer; keeps what was answered and what was wrong. */
export const useSubmit = <Answer>(send: (values: FormData) => Promise<Answer>) => {
  const answer = useSignal<Answer | undefined>(undefined)
  const error = useSignal<RequestError | undefined>(undefined)
  const isSending = useSignal(false)
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    if (isSending.value) return
    isSending.value = true
    const form = event.currentTarget as HTMLFormElement
    try {
      answer.value = await send(new FormData(form))
      error.value = undefined
      form.reset()
    } catch (reason) {
      error.value = reason as RequestError // request() throws nothing else
    } finally {
      isSending.value = false
    }
  }
  return { answer, error, isSending, submit: (event: SubmitEvent) => void submit(event) }
}
