import { useSignal } from '@preact/signals'
import type { PortalMethod } from '../../portal-services.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import { Notice, Select, TextField } from '../components/controls.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, query } from '../router.ts'
import { texts } from '../texts.ts'
import { CodeTabs } from './code-tabs.tsx'
import { keyPlaceholder, tabKey } from './tab-key.ts'
import { parseParams, sendCall, splitParams } from './try-call.ts'
import type { CallAnswer } from './try-call.ts'

const text = texts.tryIt

export const TryIt = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const chosen = query.value.get('network')
  const found = networks.data.value
  const network = found?.find(({ name }) => name === chosen) ?? found?.[0]
  if (network === undefined) return networks.error.value === undefined ? <p>{texts.loading}</p> : <Notice text={networks.error.value} />
  return (
    <>
      <div class="controls">
        <Select
          label={text.network}
          options={(found ?? []).map(({ name }) => name)}
          value={network.name}
          onChange={value => changeQuery({ network: value })}
        />
      </div>
      <MethodForm key={network.name} network={network} />
    </>
  )
}

const MethodForm = ({ network }: { readonly network: NetworkJson }) => {
  const methods = useRequest<readonly PortalMethod[]>(`/networks/${network.name}/methods`)
  const chosen = query.value.get('method') ?? 'eth_blockNumber'
  const found = methods.data.value
  const method = found?.find(({ name }) => name === chosen) ?? found?.[0]
  if (found === undefined || method === undefined)
    return methods.error.value === undefined ? <p>{texts.loading}</p> : <Notice text={methods.error.value} />
  return (
    <>
      <div class="controls">
        <Select
          label={text.method}
          options={found.map(({ name }) => name)}
          value={method.name}
          onChange={value => changeQuery({ method: value, params: '' })}
        />
      </div>
      <CallForm key={method.name} network={network} method={method} />
    </>
  )
}

const CallForm = ({ network, method }: { readonly network: NetworkJson; readonly method: PortalMethod }) => {
  const answer = useSignal<CallAnswer | undefined>(undefined)
  const error = useSignal<string | undefined>(undefined)
  const isSending = useSignal(false)
  // Of a logged request that is tried again.
  const given = splitParams(query.value.get('params') ?? '[]')
  const params = useSignal<readonly string[]>(parseParams(given))
  const readForm = (form: HTMLFormElement) => {
    const values = new FormData(form)
    return { key: String(values.get('key')).trim(), texts: method.params.map((_, i) => String(values.get(`param-${i}`) ?? '')) }
  }
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    if (isSending.value) return
    const { key, texts: paramTexts } = readForm(event.currentTarget as HTMLFormElement)
    if (!/^tg_\w+$/.test(key)) {
      error.value = text.invalidKey
      return
    }
    isSending.value = true
    tabKey.value = key
    error.value = undefined
    params.value = parseParams(paramTexts)
    try {
      answer.value = await sendCall(network, key, method.name, params.value)
    } catch {
      error.value = texts.notSent
    } finally {
      isSending.value = false
    }
  }
  return (
    <>
      <form
        class="card form"
        onSubmit={event => void submit(event)}
        onInput={event => (params.value = parseParams(readForm(event.currentTarget).texts))}
        aria-label={method.name}
      >
        <TextField label={text.key} name="key" type="password" required help={text.keyHelp} value={tabKey.value} />
        {method.params.map(({ title, optional, accepts, default: value }, i) => (
          <TextField
            key={title}
            label={optional ? `${title} (${text.optional})` : title}
            name={`param-${i}`}
            help={accepts}
            required={!optional}
            value={given[i] ?? (value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value))}
          />
        ))}
        <p>
          {text.cost} <strong data-testid="cost">{formatNumber(method.credits)}</strong> {texts.credits.toLowerCase()}.
        </p>
        <Notice text={error.value} />
        <button type="submit" disabled={isSending.value}>
          {text.send}
        </button>
      </form>
      {answer.value !== undefined && <Answer answer={answer.value} />}
      <h2>{text.code}</h2>
      <CodeTabs
        call={{ url: `${network.http}/v3/${keyPlaceholder}`, chainId: network.chainId, method: method.name, params: params.value }}
      />
    </>
  )
}

const Answer = ({ answer: { status, body, durationMs, headers } }: { readonly answer: CallAnswer }) => (
  <section class="card" aria-label={text.response} role="status">
    <h2>{text.response}</h2>
    <p>
      HTTP {status}, {text.took} {durationMs.toFixed(0)} ms
      {headers.map(([name, value]) => (
        <span key={name}>
          {', '}
          <code>
            {name}: {value}
          </code>
        </span>
      ))}
    </p>
    <pre tabIndex={0} data-testid="response">
      {body}
    </pre>
  </section>
)
