import type { ErrorCount } from '../../routes/usage.ts'
import { Select, WhenLoaded } from '../components/controls.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { ranges } from './usage.tsx'

const text = texts.errors

export const Errors = () => {
  const range = queryMember('range', '24h')
  const errors = useRequest<readonly ErrorCount[]>(`/errors?range=${range.value}`)
  return (
    <>
      <div class="controls">
        <Select label={texts.usage.range} options={ranges} value={range.value} onChange={range.set} />
      </div>
      <WhenLoaded from={errors}>{found => (found.length === 0 ? <p>{text.none}</p> : <ErrorTable errors={found} />)}</WhenLoaded>
    </>
  )
}

const ErrorTable = ({ errors }: { readonly errors: readonly ErrorCount[] }) => (
  <Table
    caption={texts.pages.errors}
    keyOf={row => row.outcome}
    rows={errors}
    columns={[
      { title: text.code, cell: row => <code>{row.code ?? row.outcome}</code> },
      { title: text.message, cell: row => row.message },
      { title: text.calls, isNumber: true, cell: row => formatNumber(row.calls) },
      { title: text.advice, cell: row => row.advice },
    ]}
  />
)
