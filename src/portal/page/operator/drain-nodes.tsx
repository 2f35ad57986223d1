import { useSignal } from '@preact/signals'
import { useId, useRef } from 'preact/hooks'
import type { NodeJson } from '../../operations/node-operations.ts'
import { gatewayHost } from '../brand.ts'
import { Banner } from '../components/banner.tsx'
import { ConfirmDialog } from '../components/dialog.tsx'
import { formatNumber } from '../format.ts'
import { RequestError } from '../request.ts'
import { DrainFields, drainSettings, requestDrain } from './drain-node.tsx'
import type { DrainDuration } from './drain-node.tsx'
import type { NodeRow } from './node-rows.ts'
import type { NetworkNodes } from './node-state.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.nodes

interface ListedNode {
  readonly id: string
  readonly network: NetworkNodes
  readonly node: NodeJson
}

/** So many are drained at a time: each answer waits until all processes keep calls away. */
const maxAtOnce = 8

export interface DrainNodesProps {
  /** Those that can be chosen are among them. */
  readonly rows: readonly NodeRow[]
  onChanged(): void
  onClose(): void
}

/** Several at once, as all of a provider: asks once, and says what stays usable of each network. */
export const DrainNodes = ({ rows, onChanged, onClose }: DrainNodesProps) => {
  const listed = rows.flatMap(({ id, network, node }): readonly ListedNode[] =>
    node === undefined || node.drained ? [] : [{ id, network, node }],
  )
  const ids = useSignal<ReadonlySet<string>>(new Set())
  const form = useRef<HTMLFormElement>(null)
  const duration = useSignal<DrainDuration>('')
  const chosen = listed.filter(({ id }) => ids.value.has(id))
  const effects = [...new Set(chosen.map(({ network }) => network))].map(network => effectOf(network, chosen))
  const losing = effects.filter(({ isLoss }) => isLoss)
  const drain = async (): Promise<void> => {
    if (chosen.length === 0) throw new RequestError(0, text.noneChosen)
    const settings = drainSettings(form.current, duration.value)
    const failed: string[] = []
    const losingNetworks = new Set(losing.map(({ network }) => network))
    for (let from = 0; from < chosen.length; from += maxAtOnce)
      await Promise.all(
        chosen
          .slice(from, from + maxAtOnce)
          .map(({ network, node }) =>
            requestDrain(network.name, node.name, { ...settings, force: losingNetworks.has(network) }).catch((reason: RequestError) =>
              failed.push(`${nameOf({ network, node })}: ${reason.message}`),
            ),
          ),
      )
    onChanged()
    if (failed.length > 0) throw new RequestError(0, `${text.notDrained} ${failed.join(' ')}`)
  }
  const isChosen = (id: string): boolean => ids.value.has(id)
  const choose = (id: string): void => {
    ids.value = new Set(isChosen(id) ? [...ids.value].filter(each => each !== id) : [...ids.value, id])
  }
  return (
    <ConfirmDialog
      title={`${text.drainSeveralAt} ${gatewayHost}?`}
      action={losing.length > 0 ? text.drainLast : `${text.drain} (${formatNumber(chosen.length)})`}
      isHarmless={losing.length === 0}
      confirm={drain}
      onClose={onClose}
    >
      <form ref={form} onSubmit={event => event.preventDefault()}>
        <fieldset>
          <legend>{text.drainWhich}</legend>
          {listed.map(each => (
            <Choice key={each.id} label={nameOf(each)} isChosen={isChosen(each.id)} onChange={() => choose(each.id)} />
          ))}
          <button type="button" class="quiet small" onClick={() => (ids.value = new Set(listed.map(({ id }) => id)))}>
            {`${text.chooseAll} (${formatNumber(listed.length)})`}
          </button>
        </fieldset>
        {losing.length > 0 && (
          <Banner tone="danger" title={text.lastOnes}>
            <Effects of={losing} />
          </Banner>
        )}
        {chosen.length > 0 && <p>{text.confirmDrain}</p>}
        <Effects of={effects.filter(({ isLoss }) => !isLoss)} />
        <div class="pairs">
          <DrainFields duration={duration.value} onDuration={value => (duration.value = value)} />
        </div>
      </form>
    </ConfirmDialog>
  )
}

const nameOf = ({ network, node }: Pick<ListedNode, 'network' | 'node'>): string => `${node.name} (${network.name})`

interface ChoiceProps {
  readonly label: string
  readonly isChosen: boolean
  onChange(): void
}

const Choice = ({ label, isChosen, onChange }: ChoiceProps) => {
  const id = useId()
  return (
    <p class="checkbox">
      <input id={id} type="checkbox" checked={isChosen} onChange={onChange} />
      <label for={id}>{label}</label>
    </p>
  )
}

interface DrainEffect {
  readonly network: NetworkNodes
  /** Calls of the network, or of a class, fail, or go to its partner. */
  readonly isLoss: boolean
  readonly text: string
}

const Effects = ({ of }: { readonly of: readonly DrainEffect[] }) => (
  <>
    {of.map(({ network, text: effect }) => (
      <span key={network.name} class="line">
        {effect}
      </span>
    ))}
  </>
)

/** What stays of the network: the gateway decides the same of each single node. */
const effectOf = (network: NetworkNodes, chosen: readonly ListedNode[]): DrainEffect => {
  const isDrained = (each: NodeJson): boolean => each.drained || chosen.some(({ node }) => node === each)
  const own = network.upstreams.filter(({ partner }) => !partner)
  const left = own.filter(each => each.usable !== false && !isDrained(each))
  const fate = network.upstreams.some(each => each.partner && each.usable !== false && !isDrained(each)) ? text.toPartner : text.fail
  if (left.length === 0)
    return own.some(each => each.usable !== false) || own.every(isDrained)
      ? { network, isLoss: true, text: `${network.name}: ${text.noneStays} ${fate}` }
      : { network, isLoss: false, text: `${network.name}: ${text.noneUsable}` }
  const stay = `${network.name}: ${left.map(({ name }) => name).join(', ')} ${left.length === 1 ? text.staysUsable : text.stayUsable}`
  const lost = classesOf(left[0]).filter(
    each =>
      left.every(node => classesOf(node).includes(each)) && own.some(node => node.usable !== false && !classesOf(node).includes(each)),
  )
  return lost.length === 0
    ? { network, isLoss: false, text: `${stay}.` }
    : { network, isLoss: true, text: `${stay}, ${text.notForClasses} ${lost.join(', ')}: ${fate}` }
}

/** Of methods of which it gets no calls. */
const classesOf = (node: NodeJson | undefined): readonly string[] =>
  node?.reasons.filter(({ keepsAway }) => keepsAway).map(each => each.class) ?? []
