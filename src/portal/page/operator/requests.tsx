import type { OperatorRequestJson, RequestListJson } from '../../operations/request-operations.ts'
import { TextField, WhenLoaded } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Outcome, RequestFacts } from '../components/request-facts.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { toneOfFault } from './format-figures.ts'
import { AccountLink, KeyLink, NodeLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.requests

/** The requests with an id that a customer quotes, whoever's they are. */
export const Requests = () => {
  const id = queryMember('id')
  const find = (event: SubmitEvent): void => {
    event.preventDefault()
    id.set(String(new FormData(event.currentTarget as HTMLFormElement).get('id')).trim())
  }
  return (
    <>
      <form class="controls find" onSubmit={find} aria-label={text.find}>
        <TextField key={id.value} label={texts.requests.requestId} name="id" value={id.value} required />
        <button type="submit">{text.find}</button>
      </form>
      {id.value === '' ? (
        <EmptyState icon="requests" title={text.howTo}>
          {text.howToFind} {text.whatIsLogged}
        </EmptyState>
      ) : (
        <Found key={id.value} id={id.value} />
      )}
    </>
  )
}

const Found = ({ id }: { readonly id: string }) => (
  <WhenLoaded from={useRequest<RequestListJson>(`/requests/${encodeURIComponent(id)}`, Infinity)} skeleton={<Skeleton height={14} />}>
    {({ isLogged, retentionHours, requests }) =>
      requests.length === 0 ? (
        <EmptyState icon="requests" title={isLogged ? text.noneFound : text.notLogged}>
          {isLogged && `${text.kept} ${formatNumber(retentionHours)} h. ${text.whatIsLogged}`}
        </EmptyState>
      ) : (
        requests.map(request => <Request key={request.id} request={request} />)
      )
    }
  </WhenLoaded>
)

const Request = ({ request }: { readonly request: OperatorRequestJson }) => {
  const { account, key, method, network, upstream, message, advice } = request
  return (
    <section class="card" aria-label={method}>
      <div class="heading">
        <h2>{method}</h2>
        <Outcome shown={request} toneOfFailure={toneOfFault(request)} />
      </div>
      {message !== null && <p>{message}</p>}
      {advice !== null && <p class="help">{advice}</p>}
      <RequestFacts
        shown={request}
        of={[
          [text.account, <AccountLink key="account" {...account} />],
          [
            texts.usage.key,
            <KeyLink
              key="key"
              account={account.name}
              id={key.id}
              name={[key.name ?? key.id, ...(key.hint === null ? [] : [`…${key.hint}`])].join(' ')}
            />,
          ],
        ]}
        node={upstream !== null && <NodeLink network={network} node={upstream} />}
      />
      <p class="help">{text.noParams}</p>
    </section>
  )
}
