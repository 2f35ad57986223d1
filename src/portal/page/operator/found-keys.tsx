import { useEffect } from 'preact/hooks'
import type { OperatorKeyJson } from '../../operations/key-operations.ts'
import { Notice } from '../components/controls.tsx'
import { KeyState } from '../components/key-actions.tsx'
import { Table } from '../components/table.tsx'
import { formatTime } from '../format.ts'
import { useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { AccountLink, KeyLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accounts

export interface FoundKeysProps {
  readonly ending: string
  /** Where those that were found are kept; undefined while they are looked for. */
  readonly found: { value: readonly OperatorKeyJson[] | undefined }
}

/** Keys that end so, of whichever account: each leads to its last requests. */
export const FoundKeys = ({ ending, found }: FoundKeysProps) => {
  const keys = useRequest<readonly OperatorKeyJson[]>(`/keys?${new URLSearchParams({ ending })}`, Infinity)
  const shown = keys.data.value
  const error = keys.error.value
  useEffect(() => {
    found.value = shown ?? (error === undefined ? undefined : [])
    return () => void (found.value = undefined)
  }, [shown, error])
  const title = `${text.keysThatEnd} ${ending}`
  if (shown === undefined) return error === undefined ? <p class="lead">{text.lookingForKeys}</p> : <Notice text={error} />
  if (shown.length === 0) return null
  return (
    <>
      <h2>{title}</h2>
      <Table
        caption={title}
        keyOf={({ id }) => id}
        rows={shown}
        columns={[
          { title: texts.keys.name, cell: ({ id, name, account }) => <KeyLink account={account.name} id={id} name={name || id} /> },
          { title: texts.keys.key, cell: ({ hint }) => <code>…{hint}</code> },
          { title: operatorTexts.home.account, cell: ({ account }) => <AccountLink {...account} /> },
          { title: texts.keys.state, cell: ({ state }) => <KeyState state={state} /> },
          { title: text.created, isTime: true, cell: ({ created }) => formatTime(created) },
        ]}
      />
    </>
  )
}
