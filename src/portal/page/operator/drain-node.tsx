import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { allClasses } from '../../../services/node-reasons.ts'
import { nodesLeft } from '../../nodes-left.ts'
import type { NodeJson } from '../../operations/node-operations.ts'
import { gatewayHost } from '../brand.ts'
import { Banner } from '../components/banner.tsx'
import { RowButton, Select, TextField } from '../components/controls.tsx'
import { ConfirmDialog } from '../components/dialog.tsx'
import { typedText } from '../components/form.tsx'
import { showToast } from '../components/toast.tsx'
import { formatNumber } from '../format.ts'
import { request } from '../request.ts'
import type { RequestError } from '../request.ts'
import { formatPart } from './format-figures.ts'
import { fateOfCalls, isDrained } from './node-state.tsx'
import type { NetworkNodes } from './node-state.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.nodes

/** How long it is drained; empty: until an operator puts it back. */
const durations = (['', '30m', '2h', '8h', '1d'] as const).map(value => ({ value, label: text.drainFor[value] }))

export type DrainDuration = (typeof durations)[number]['value']

interface DrainSettings {
  readonly reason?: string
  readonly for?: string
}

/** What was typed and chosen in DrainFields. */
export const drainSettings = (form: HTMLFormElement | null, duration: DrainDuration): DrainSettings => {
  const reason = form === null ? '' : typedText(new FormData(form), 'reason')
  return { ...(reason !== '' && { reason }), ...(duration !== '' && { for: duration }) }
}

/** Rejects with RequestError. */
export const requestDrain = (network: string, node: string, input: DrainSettings & { readonly force: boolean }): Promise<unknown> =>
  request('POST', pathOf(network, node, 'drain'), input)

interface DrainFieldsProps {
  readonly duration: DrainDuration
  onDuration(value: DrainDuration): void
}

export const DrainFields = ({ duration, onDuration }: DrainFieldsProps) => (
  <>
    <TextField label={text.reason} name="reason" help={text.reasonHelp} />
    <Select label={text.putBackWhen} options={durations} value={duration} onChange={onDuration} />
  </>
)

const pathOf = (network: string, node: string, action: string): string =>
  `/nodes/${encodeURIComponent(network)}/${encodeURIComponent(node)}/${action}`

interface PutBackProps extends Pick<DrainProps, 'of' | 'onChanged'> {
  readonly network: string
  readonly name: string
}

export const PutBack = ({ network, name, of, onChanged }: PutBackProps) => {
  const undrain = async (): Promise<void> => {
    try {
      await request('POST', pathOf(network, name, 'undrain'))
      onChanged()
    } catch (reason) {
      showToast((reason as Error).message, 'danger')
    }
  }
  return <RowButton label={text.undrain} of={of} onClick={() => void undrain()} />
}

interface DrainProps {
  readonly network: NetworkNodes
  readonly node: NodeJson
  /** Of the attempts of the last minute. */
  readonly share?: number | null | undefined
  /** What the button is about, where it is read alone. */
  readonly of: string
  onChanged(): void
}

/** Says what is left, and warns of the last node for some calls; the gateway refuses that too, unless it is forced. */
export const DrainNode = ({ network, node, share, of, onChanged }: DrainProps) => {
  const { name, drained, onlyFor } = node
  const isAsking = useSignal(false)
  /** Why the gateway has refused, which may know better than the page. */
  const refusal = useSignal<string | undefined>(undefined)
  const isLast = refusal.value !== undefined || onlyFor.length > 0
  const form = useRef<HTMLFormElement>(null)
  const duration = useSignal<DrainDuration>('')
  const drain = async (): Promise<void> => {
    try {
      await requestDrain(network.name, name, { ...drainSettings(form.current, duration.value), force: isLast })
      onChanged()
    } catch (reason) {
      const { code, message } = reason as RequestError // request() throws nothing else
      if (code === 'last-node') refusal.value = message
      throw reason
    }
  }
  if (drained) return <PutBack network={network.name} name={name} of={of} onChanged={onChanged} />
  return (
    <>
      <RowButton
        label={text.drain}
        of={of}
        isDangerous={onlyFor.includes(allClasses)}
        onClick={() => ([isAsking.value, refusal.value] = [true, undefined])}
      />
      {isAsking.value && (
        <ConfirmDialog
          title={`${text.drain} ${name} ${text.of} ${network.name} ${text.at} ${gatewayHost}?`}
          action={isLast ? text.drainLast : text.drain}
          isHarmless={!isLast}
          confirm={drain}
          onClose={() => (isAsking.value = false)}
        >
          {isLast ? <LastNode network={network} classes={onlyFor} /> : <WhatIsLeft network={network} node={node} share={share} />}
          <form ref={form} class="pairs" onSubmit={event => event.preventDefault()}>
            <DrainFields duration={duration.value} onDuration={value => (duration.value = value)} />
          </form>
        </ConfirmDialog>
      )}
    </>
  )
}

/** Calls that would fail, or go to the partner. */
const LastNode = ({ network, classes }: { readonly network: NetworkNodes; readonly classes: readonly string[] }) => {
  const ofSome = classes.length > 0 && !classes.includes(allClasses)
  const title = ofSome ? `${text.onlyNodeFor} ${classes.join(', ')} ${text.of} ${network.name}.` : `${text.lastUsable} ${network.name}.`
  return (
    <Banner tone="danger" title={title}>
      {`${ofSome ? text.untilPutBackThose : text.untilPutBack} ${fateOfCalls(network)}.`}
      {!ofSome && ` ${text.customersSeeDown}`}
    </Banner>
  )
}

const WhatIsLeft = ({ network, node, share }: Pick<DrainProps, 'network' | 'node' | 'share'>) => {
  const { name, partner, inFlight, usable } = node
  const others = nodesLeft(network.upstreams, [node], isDrained).length
  return (
    <>
      {!partner && (
        <p>
          <strong>
            {`${others} ${text.of} ${network.nodes} ${others === 1 ? text.stays : text.stay} `}
            {(share ?? null) !== null && `${name} ${text.has} ${formatPart(share)} ${text.ofAttempts}`}
          </strong>
        </p>
      )}
      <p>
        {usable === false ? text.confirmDrainUnusable : text.confirmDrain}
        {inFlight === null || inFlight === 0 ? '' : ` ${text.inFlight}: ${formatNumber(inFlight)}.`}
        {!partner && ` ${text.customersSee}`}
      </p>
    </>
  )
}
