import type { NetworkJson } from '../../routes/networks.ts'
import { CopyText, WhenLoaded } from '../components/controls.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { texts } from '../texts.ts'

const text = texts.networks

export const Networks = () => {
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  return (
    <>
      <p>{text.replaceKey}</p>
      <WhenLoaded from={networks}>
        {found => (
          <Table
            caption={texts.pages.networks}
            keyOf={row => row.name}
            rows={found}
            columns={[
              { title: text.name, cell: row => row.name },
              { title: text.chainId, isNumber: true, cell: row => row.chainId },
              { title: text.urls, cell: row => <Urls network={row} /> },
              { title: text.head, isNumber: true, cell: row => formatNumber(row.head) },
              { title: text.finalized, isNumber: true, cell: row => formatNumber(row.finalized) },
              { title: text.nodes, isNumber: true, cell: row => `${row.usableNodes} / ${row.nodes}` },
            ]}
          />
        )}
      </WhenLoaded>
    </>
  )
}

const Urls = ({ network: { name, http, ws } }: { readonly network: NetworkJson }) => (
  <>
    <CopyText text={`${http}/v3/API_KEY`} label={`${text.http} ${name}`} />
    <br />
    <CopyText text={`${ws}/ws/v3/API_KEY`} label={`${text.ws} ${name}`} />
  </>
)
