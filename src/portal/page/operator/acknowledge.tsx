import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { CurrentProblemJson } from '../../operator/problems.ts'
import { RowButton, TextField } from '../components/controls.tsx'
import { ConfirmDialog } from '../components/dialog.tsx'
import { typedText } from '../components/form.tsx'
import { showToast } from '../components/toast.tsx'
import { request } from '../request.ts'
import { nameOfNode } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.home

interface AcknowledgeProps {
  readonly problem: CurrentProblemJson
  onChanged(): void
}

/** That somebody looks after a problem, until it has ended. */
export const Acknowledge = ({ problem: { network, node, acknowledged }, onChanged }: AcknowledgeProps) => {
  const isAsking = useSignal(false)
  const form = useRef<HTMLFormElement>(null)
  const of = node === null ? (network ?? '') : nameOfNode(network ?? '', node)
  const send = async (action: string, input: object): Promise<void> => {
    await request('POST', `/overview/incidents/${action}`, { network, ...(node !== null && { node }), ...input })
    onChanged()
  }
  const acknowledge = (): Promise<void> => {
    const note = form.current === null ? '' : typedText(new FormData(form.current), 'note')
    return send('acknowledge', note === '' ? {} : { note })
  }
  const takeBack = (): void => void send('unacknowledge', {}).catch((reason: unknown) => showToast((reason as Error).message, 'danger'))
  const ask = (): void => void (isAsking.value = true)
  const [label, onClick] = acknowledged === null ? [text.acknowledge, ask] : [text.unacknowledge, takeBack]
  return (
    <>
      <RowButton label={label} of={of} onClick={onClick} />
      {isAsking.value && (
        <ConfirmDialog
          title={`${text.acknowledge}: ${of}`}
          action={text.acknowledge}
          isHarmless
          confirm={acknowledge}
          onClose={() => (isAsking.value = false)}
        >
          <form ref={form} onSubmit={event => event.preventDefault()}>
            <p>
              {node === null && `${text.acknowledgeNetworkHelp} `}
              {text.acknowledgeHelp}
            </p>
            <TextField label={text.note} name="note" help={operatorTexts.nodes.reasonHelp} />
          </form>
        </ConfirmDialog>
      )}
    </>
  )
}
