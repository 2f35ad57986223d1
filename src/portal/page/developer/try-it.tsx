import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { PortalMethod } from '../../portal-services.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import { Badge } from '../components/badge.tsx'
import { Notice, Select, TextField } from '../components/controls.tsx'
import { Icon } from '../components/icon.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, query } from '../router.ts'
import { texts } from '../texts.ts'
import { Answer, isSuccess } from './call-answer.tsx'
import { CodeTabs } from './code-tabs.tsx'
import { summaryOf } from './method-summaries.ts'
import { ParamFields } from './param-fields.tsx'
import { usePreferredNetwork } from './preferred-network.ts'
import { Subscription } from './subscription.tsx'
import type { Subscribing } from './subscription.tsx'
import { keyPlaceholder, tabKey } from './tab-key.ts'
import { sendCall } from './try-call.ts'
import type { CallAnswer } from './try-call.ts'
import { fillForm, formVersion, keepTyped, pastCalls, recordCall, showPastCall, typedByMethod } from './try-state.ts'
import type { Typed } from './try-state.ts'
import { defaultsOf, readParams, typedOf, withExamples } from './typed-params.ts'

const text = texts.tryIt

const firstMethod = 'eth_blockNumber'

/** Belongs to a connection, and ends with it: the page does it when a subscription is stopped. */
const hiddenMethods = ['eth_unsubscribe']

export const TryIt = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const preferred = usePreferredNetwork()
  const found = networks.data.value
  const network = found?.find(({ name }) => name === query.value.get('network')) ?? preferred(found)
  if (found === undefined || network === undefined)
    return networks.error.value === undefined ? <Skeleton height={24} /> : <Notice text={networks.error.value} />
  return <MethodChoice key={network.name} networks={found} network={network} />
}

const MethodChoice = ({ networks, network }: { readonly networks: readonly NetworkJson[]; readonly network: NetworkJson }) => {
  const methods = useRequest<readonly PortalMethod[]>(`/networks/${network.name}/methods`)
  const found = methods.data.value?.filter(({ name }) => !hiddenMethods.includes(name))
  const method = found?.find(({ name }) => name === (query.value.get('method') ?? firstMethod)) ?? found?.[0]
  if (found === undefined || method === undefined)
    return methods.error.value === undefined ? <Skeleton height={24} /> : <Notice text={methods.error.value} />
  const given = query.value.get('params') ?? ''
  return (
    <>
      <div class="controls">
        <Select
          label={text.network}
          options={networks.map(({ name }) => name)}
          value={network.name}
          onChange={value => changeQuery({ network: value })}
        />
        <Select
          label={text.method}
          options={found.map(({ name }) => name).toSorted()}
          value={method.name}
          onChange={value => changeQuery({ method: value, params: '' })}
        />
      </div>
      <div class="beside-docs">
        <CallForm key={`${method.name} ${given} ${formVersion.value}`} network={network} method={method} given={given} />
        <aside>
          <MethodDocs method={method} />
          <History />
        </aside>
      </div>
    </>
  )
}

/** The fields of the parameters, as they are typed. */
const typedIn = (form: HTMLFormElement): Typed =>
  Object.fromEntries([...new FormData(form)].filter(([name]) => name.startsWith('param-')).map(([name, value]) => [name, String(value)]))

interface CallFormProps {
  readonly network: NetworkJson
  readonly method: PortalMethod
  /** JSON: the parameters of a logged request that is tried again; empty where there is none. */
  readonly given: string
}

const CallForm = ({ network, method, given }: CallFormProps) => {
  const { name, params } = method
  const answer = useSignal<CallAnswer | undefined>(undefined)
  const subscribing = useSignal<Subscribing | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const isSending = useSignal(false)
  // What is typed since stays in the fields.
  const initial = useRef(given === '' ? (typedByMethod.peek()[name] ?? defaultsOf(params)) : typedOf(params, given)).current
  const typed = useSignal<Typed>(initial)
  const isSubscription = name === 'eth_subscribe'
  const update = (form: HTMLFormElement): void => {
    typed.value = typedIn(form)
    keepTyped(name, typed.value)
    tabKey.value = String(new FormData(form).get('key')).trim()
  }
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    if (isSending.value) return
    const form = event.currentTarget as HTMLFormElement
    update(form)
    const key = tabKey.value
    if (!/^tg_\w+$/.test(key)) {
      error.value = text.invalidKey
      return
    }
    error.value = undefined
    const sent = readParams(params, typed.value)
    if (isSubscription) {
      subscribing.value = { network, key, params: sent }
      return
    }
    isSending.value = true
    const call = { time: new Date().toISOString(), network: network.name, method: name, typed: typed.value }
    try {
      answer.value = await sendCall(network, key, name, sent)
      recordCall({ ...call, isOk: isSuccess(answer.value.body), durationMs: answer.value.durationMs })
    } catch {
      error.value = texts.notSent
    } finally {
      isSending.value = false
    }
  }
  return (
    <div>
      <form class="card form" onSubmit={event => void submit(event)} onInput={event => update(event.currentTarget)} aria-label={name}>
        <TextField label={text.key} name="key" type="password" required help={text.keyHelp} value={tabKey.value} placeholder="tg_…" />
        <ParamFields method={name} params={params} initial={initial} typed={typed.value} />
        <Notice text={error.value} />
        <div class="buttons">
          <button type="submit" disabled={isSending.value}>
            <Icon name="play" />
            {isSubscription ? text.subscribe : text.send}
          </button>
          <span class="lead">
            {text.cost} <strong data-testid="cost">{formatNumber(method.credits)}</strong> {texts.credits.toLowerCase()}
          </span>
          {params.length > 0 && (
            <button type="button" class="plain" onClick={() => fillForm(name, withExamples(params, typed.value))}>
              {text.fill}
            </button>
          )}
        </div>
      </form>
      {answer.value !== undefined && <Answer method={name} answer={answer.value} />}
      {subscribing.value !== undefined && <Subscription {...subscribing.value} onStop={() => (subscribing.value = undefined)} />}
      <section class="card" aria-label={text.code}>
        <h2>{text.code}</h2>
        <CodeTabs
          call={{
            url: `${network.http}/v3/${keyPlaceholder}`,
            chainId: network.chainId,
            method: name,
            params: readParams(params, typed.value),
          }}
        />
      </section>
    </div>
  )
}

const MethodDocs = ({ method: { name, params, credits } }: { readonly method: PortalMethod }) => (
  <section class="card" aria-label={text.docs}>
    <h2 class="docs-title">
      <code>{name}</code>
    </h2>
    <p>{summaryOf(name)}</p>
    <dl class="docs">
      {params.map(({ title, optional, accepts }) => (
        <div key={title}>
          <dt>
            {title} {optional && <Badge isLabel>{text.optional}</Badge>}
          </dt>
          <dd>{accepts}</dd>
        </div>
      ))}
      <div>
        <dt>{texts.plan.credits}</dt>
        <dd>{formatNumber(credits)}</dd>
      </div>
    </dl>
  </section>
)

/** The calls of this tab; a click fills the form with one. */
const History = () =>
  pastCalls.value.length === 0 ? null : (
    <section class="card" aria-label={text.history}>
      <h2>{text.history}</h2>
      <ol class="history">
        {pastCalls.value.map(call => (
          <li key={call.id}>
            <button type="button" class="plain" onClick={() => showPastCall(call)}>
              <code>{call.method}</code>
              <span>
                <Badge tone={call.isOk ? 'ok' : 'danger'}>{call.isOk ? texts.outcomes.ok : texts.outcomes.failed}</Badge>
                <time dateTime={call.time}>{call.time.slice(11, 19)}</time>
              </span>
            </button>
          </li>
        ))}
      </ol>
    </section>
  )
