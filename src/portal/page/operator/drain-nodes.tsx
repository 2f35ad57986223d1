import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { classesLost, nodesLeft } from '../../nodes-left.ts'
import type { NodeJson } from '../../operations/node-operations.ts'
import { gatewayHost } from '../brand.ts'
import { Banner } from '../components/banner.tsx'
import { Checkbox } from '../components/controls.tsx'
import { ConfirmDialog } from '../components/dialog.tsx'
import { formatNumber } from '../format.ts'
import { RequestError } from '../request.ts'
import { DrainFields, drainSettings, requestDrain } from './drain-node.tsx'
import type { DrainDuration } from './drain-node.tsx'
import { nameOfNode } from './links.tsx'
import type { NodeRow } from './node-rows.ts'
import { fateOfCalls, isDrained } from './node-state.tsx'
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
            <Checkbox
              key={each.id}
              name="node"
              value={each.id}
              label={nameOf(each)}
              isChecked={isChosen(each.id)}
              onChange={() => choose(each.id)}
            />
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
        {chosen.length > 0 && <p>{`${text.confirmDrain} ${text.customersSee}`}</p>}
        <Effects of={effects.filter(({ isLoss }) => !isLoss)} />
        <div class="pairs">
          <DrainFields duration={duration.value} onDuration={value => (duration.value = value)} />
        </div>
      </form>
    </ConfirmDialog>
  )
}

const nameOf = ({ network, node }: Pick<ListedNode, 'network' | 'node'>): string => nameOfNode(network.name, node.name)

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

/** What stays of the network, as the gateway decides it of each single node. */
const effectOf = (network: NetworkNodes, chosen: readonly ListedNode[]): DrainEffect => {
  const taken = chosen.filter(each => each.network === network).map(({ node }) => node)
  const left = nodesLeft(network.upstreams, taken, isDrained)
  const lost = classesLost(network.upstreams, taken, isDrained)
  const isLoss = lost.length > 0
  const fate = fateOfCalls(network, taken)
  if (left.length === 0) return { network, isLoss, text: `${network.name}: ${isLoss ? `${text.noneStays} ${fate}` : text.noneUsable}.` }
  const stay = `${network.name}: ${left.map(({ name }) => name).join(', ')} ${left.length === 1 ? text.staysUsable : text.stayUsable}`
  return { network, isLoss, text: isLoss ? `${stay}, ${text.notForClasses} ${lost.join(', ')}: ${fate}.` : `${stay}.` }
}
