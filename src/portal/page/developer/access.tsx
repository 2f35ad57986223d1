import type { NewTokenJson, TokenJson } from '../../routes/tokens.ts'
import { Checkbox, Notice, RowButton, TextField, WhenLoaded } from '../components/controls.tsx'
import { Form, ShownOnce } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { accountTexts } from './account-texts.ts'
import { developerTexts } from './developer-texts.ts'
import { People } from './people.tsx'
import { useRemove } from './use-remove.ts'

const text = accountTexts.access

export const Access = () => (
  <>
    <People />
    <Tokens />
    <p>
      <a href="/api/v1/openapi.json">{text.api}</a>
    </p>
  </>
)

const Tokens = () => {
  const tokens = useRequest<readonly TokenJson[]>('/tokens')
  const removal = useRemove(tokens.reload)
  const create = async (values: FormData) => {
    const days = String(values.get('days') ?? '')
    const readOnly = values.has('readOnly')
    const body = { name: String(values.get('name')).trim(), readOnly, ...(days !== '' && { days: Number(days) }) }
    const created = await request<NewTokenJson>('POST', '/tokens', body)
    tokens.reload()
    return created
  }
  return (
    <>
      <h2>{text.tokens}</h2>
      <p class="lead">
        {text.tokensHelp} <code>Authorization: Bearer TOKEN</code>
      </p>
      <Notice text={removal.error.value} />
      <WhenLoaded from={tokens}>
        {found => (found.length === 0 ? <p class="lead">{text.noTokens}</p> : <TokenTable tokens={found} remove={removal.remove} />)}
      </WhenLoaded>
      <Form
        title={text.createToken}
        heading="h3"
        isWide
        send={create}
        done={({ token }) => <ShownOnce help={text.saveToken} text={token} label={text.newToken} />}
      >
        {errorOf => (
          <>
            <TextField label={developerTexts.keys.name} name="name" required error={errorOf('name')} />
            <TextField label={text.days} name="days" type="number" value="90" help={text.daysHelp} error={errorOf('days')} />
            <Checkbox label={text.readOnly} name="readOnly" value="yes" isChecked />
          </>
        )}
      </Form>
    </>
  )
}

const TokenTable = ({ tokens, remove }: { readonly tokens: readonly TokenJson[]; remove(path: string): void }) => (
  <Table
    caption={text.tokens}
    keyOf={token => token.id}
    rows={tokens}
    columns={[
      { title: developerTexts.keys.name, cell: token => token.name },
      { title: text.token, cell: token => <code>…{token.hint}</code> },
      { title: text.mayDo, cell: ({ readOnly }) => (readOnly ? text.reads : text.asYou) },
      { title: developerTexts.keys.created, isTime: true, cell: token => formatTime(token.created) },
      { title: developerTexts.keys.lastUsed, isTime: true, cell: token => formatTime(token.lastUsed, developerTexts.never) },
      { title: text.expires, isTime: true, cell: token => formatTime(token.expires, developerTexts.never) },
      {
        title: developerTexts.keys.actions,
        cell: token => <RowButton label={text.revokeToken} of={token.name} onClick={() => remove(`/tokens/${token.id}`)} />,
      },
    ]}
  />
)
