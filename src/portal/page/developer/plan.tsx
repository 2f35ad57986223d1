import { useSignal } from '@preact/signals'
import type { PortalMethod } from '../../portal-services.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import { Notice, Select, WhenLoaded } from '../components/controls.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { account } from './developer-session.ts'

const text = texts.plan

export const Plan = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const chosen = useSignal<string | undefined>(undefined)
  const names = networks.data.value?.map(({ name }) => name) ?? []
  const network = names.find(name => name === chosen.value) ?? names[0]
  const plan = account.value?.plan
  return (
    <>
      {plan !== undefined && (
        <p>
          {texts.overview.plan}: <strong>{plan.name}</strong>
          {plan.dailyCredits !== null && `, ${formatNumber(plan.dailyCredits)} ${texts.overview.perDay}`}
        </p>
      )}
      <h2>{text.prices}</h2>
      <Notice text={networks.error.value} />
      {network === undefined ? (
        networks.error.value === undefined && <p>{texts.loading}</p>
      ) : (
        <>
          <div class="controls">
            <Select label={text.network} options={names} value={network} onChange={value => (chosen.value = value)} />
          </div>
          <Prices key={network} network={network} />
        </>
      )}
    </>
  )
}

const Prices = ({ network }: { readonly network: string }) => {
  const methods = useRequest<readonly PortalMethod[]>(`/networks/${network}/methods`)
  return (
    <WhenLoaded from={methods}>
      {found => (
        <Table
          caption={text.prices}
          keyOf={row => row.name}
          rows={found}
          columns={[
            { title: text.method, cell: row => <code>{row.name}</code> },
            { title: text.credits, isNumber: true, cell: row => formatNumber(row.credits) },
          ]}
        />
      )}
    </WhenLoaded>
  )
}
