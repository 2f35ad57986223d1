import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { PortalMethod } from '../../portal-services.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import { now } from '../clock.ts'
import { Badge } from '../components/badge.tsx'
import { Notice, Select } from '../components/controls.tsx'
import { Icon } from '../components/icon.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { formatMoment, formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, followLink, query } from '../router.ts'
import { buildTexts } from './build-texts.ts'
import { developerTexts } from './developer-texts.ts'
import { Answer, isSuccess } from './call-answer.tsx'
import { codeSamples, subscriptionSamples } from './code-samples.ts'
import { CodeTabs } from './code-tabs.tsx'
import { describeLimits, summaryOf } from './method-summaries.ts'
import { KeyChoice } from './key-choice.tsx'
import { useKeyNames } from './key-names.ts'
import type { KeysById } from './key-names.ts'
import { ParamFields } from './param-fields.tsx'
import { usePreferredNetwork } from './preferred-network.ts'
import { Subscription } from './subscription.tsx'
import type { Subscribing } from './subscription.tsx'
import { isKey, keepKey, keyPlaceholder, knownKeys, tabKey, validKey } from './tab-key.ts'
import { sendCall } from './try-call.ts'
import type { CallAnswer } from './try-call.ts'
import { fillForm, formVersion, keepTyped, pastCalls, recordCall, showPastCall, typedByMethod } from './try-state.ts'
import type { Typed } from './try-state.ts'
import { defaultsOf, readParams, typedOf, withExamples } from './typed-params.ts'

const text = buildTexts.tryIt

const firstMethod = 'eth_blockNumber'
const subscribeMethod = 'eth_subscribe'

/** Belongs to a connection, and ends with it: the page does it when a subscription is stopped. */
const hiddenMethods = ['eth_unsubscribe']

export const TryIt = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const preferred = usePreferredNetwork()
  // A tab that knows no key shows no name of one.
  const keys = useKeyNames(knownKeys.value.length > 0 || query.value.has('key')).byId
  const found = networks.data.value
  const network = found?.find(({ name }) => name === query.value.get('network')) ?? preferred(found)
  if (found === undefined || network === undefined)
    return networks.error.value === undefined ? <Skeleton height={24} /> : <Notice text={networks.error.value} />
  return <MethodChoice key={network.name} networks={found} network={network} keys={keys} />
}

interface MethodChoiceProps {
  readonly networks: readonly NetworkJson[]
  readonly network: NetworkJson
  readonly keys: KeysById
}

const MethodChoice = ({ networks, network, keys }: MethodChoiceProps) => {
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
          onChange={value => changeQuery({ method: value, params: '', key: '' })}
        />
      </div>
      <div class="beside-docs">
        <CallForm key={`${method.name} ${given} ${formVersion.value}`} network={network} method={method} given={given} keys={keys} />
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
  readonly keys: KeysById
  /** JSON: the parameters of a logged request that is tried again; empty where there is none. */
  readonly given: string
}

const CallForm = ({ network, method, given, keys }: CallFormProps) => {
  const { name, params } = method
  const answer = useSignal<CallAnswer | undefined>(undefined)
  const subscribing = useSignal<Subscribing | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const isSending = useSignal(false)
  // What is typed since stays in the fields.
  const initial = useRef(given === '' ? (typedByMethod.peek()[name] ?? defaultsOf(params)) : typedOf(params, given)).current
  const typed = useSignal<Typed>(initial)
  const isSubscription = name === subscribeMethod
  const update = (form: HTMLFormElement): void => {
    typed.value = typedIn(form)
    keepTyped(name, typed.value)
  }
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    if (isSending.value) return
    const form = event.currentTarget as HTMLFormElement
    update(form)
    const key = tabKey.value
    if (!isKey(key)) {
      error.value = text.invalidKey
      return
    }
    error.value = undefined
    keepKey(key)
    const sent = readParams(params, typed.value)
    if (isSubscription) {
      subscribing.value = { network, key, params: sent }
      return
    }
    isSending.value = true
    const call = { time: new Date(now.value).toISOString(), network: network.name, method: name, typed: typed.value }
    try {
      answer.value = await sendCall(network, key, name, sent)
      recordCall({ ...call, isOk: isSuccess(answer.value.body), durationMs: answer.value.durationMs })
    } catch {
      error.value = developerTexts.notSent
    } finally {
      isSending.value = false
    }
  }
  return (
    <div>
      <form class="card form" onSubmit={event => void submit(event)} onInput={event => update(event.currentTarget)} aria-label={name}>
        <KeyChoice keys={keys} wanted={query.value.get('key') ?? undefined} />
        <ParamFields method={name} params={params} initial={initial} typed={typed.value} />
        <Notice text={error.value} />
        <div class="buttons">
          <button type="submit" disabled={isSending.value}>
            <Icon name="play" />
            {isSubscription ? text.subscribe : text.send}
          </button>
          <span class="lead">
            {text.cost} <strong data-testid="cost">{formatNumber(method.credits)}</strong> {developerTexts.credits.toLowerCase()}
          </span>
          {params.length > 0 && (
            <button type="button" class="quiet" onClick={() => fillForm(name, withExamples(params, typed.value))}>
              {text.fill}
            </button>
          )}
        </div>
      </form>
      {answer.value !== undefined && <Answer method={name} answer={answer.value} />}
      {subscribing.value !== undefined && <Subscription {...subscribing.value} onStop={() => (subscribing.value = undefined)} />}
      <section class="card" aria-label={developerTexts.useKey.code}>
        <h2>{developerTexts.useKey.code}</h2>
        <CodeTabs samples={samplesOf(network, name, readParams(params, typed.value))} secret={validKey()} />
      </section>
    </div>
  )
}

/** Events come over a WebSocket alone. */
const samplesOf = ({ http, ws, chainId }: NetworkJson, method: string, params: readonly string[]) => {
  const key = validKey() ?? keyPlaceholder
  return method === subscribeMethod
    ? subscriptionSamples({ url: `${ws}/ws/v3/${key}`, chainId, method, params })
    : codeSamples({ url: `${http}/v3/${key}`, chainId, method, params })
}

/** What the form does not say beside its fields. */
const MethodDocs = ({ method: { name, params, credits, verification, eventCredits, limits } }: { readonly method: PortalMethod }) => (
  <section class="card" aria-label={text.docs}>
    <h2 class="docs-title">
      <code>{signatureOf(name, params)}</code>
    </h2>
    <p>{summaryOf(name)}</p>
    {limits !== undefined && <p>{describeLimits(limits)}</p>}
    <dl class="docs">
      <div>
        <dt>{developerTexts.plan.credits}</dt>
        <dd>
          {formatNumber(credits)}
          {eventCredits?.['logs'] !== undefined &&
            `, ${developerTexts.keys.and} ${formatNumber(eventCredits['logs'])} ${developerTexts.plan.perKiBOfLogs}`}
        </dd>
      </div>
      {verification !== undefined && (
        <div>
          <dt>{developerTexts.plan.verification}</dt>
          <dd>{verification}</dd>
        </div>
      )}
    </dl>
    <p>
      <a href={`/usage?${new URLSearchParams({ method: name, by: 'outcome' })}`} onClick={followLink}>
        {developerTexts.requests.usageOfMethod}
      </a>
    </p>
  </section>
)

/** `eth_getBalance(address, block parameter?)` */
const signatureOf = (name: string, params: PortalMethod['params']): string =>
  `${name}(${params.map(({ title, optional }) => (optional ? `${title}?` : title)).join(', ')})`

/** The calls of this tab; a click fills the form with one. */
const History = () =>
  pastCalls.value.length === 0 ? null : (
    <section class="card" aria-label={text.history}>
      <h2>{text.history}</h2>
      <ol class="history">
        {pastCalls.value.map(call => (
          <li key={call.id}>
            <button type="button" class="quiet" onClick={() => showPastCall(call)}>
              <code>{call.method}</code>
              <span>
                <Badge tone={call.isOk ? 'ok' : 'danger'}>{call.isOk ? developerTexts.outcomes.ok : developerTexts.outcomes.failed}</Badge>
                <time dateTime={call.time}>{formatMoment(call.time, now.value)}</time>
              </span>
            </button>
          </li>
        ))}
      </ol>
    </section>
  )
