import { useSignal } from '@preact/signals'
import type { EvidenceJson, EvidenceSummaryJson } from '../../operations/evidence-operations.ts'
import { Badge } from '../components/badge.tsx'
import { RowButton, WhenLoaded } from '../components/controls.tsx'
import { ConfirmDialog, Dialog } from '../components/dialog.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber, formatSeconds } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.wrongResults

const maxShown = 20

interface WrongResultsProps {
  readonly network: string
  /** Of the network, the newest first. */
  readonly evidence: readonly EvidenceSummaryJson[]
  onChanged(): void
}

/** What nodes of a network have returned that is wrong, and how they are trusted again. */
export const WrongResults = ({ network, evidence, onChanged }: WrongResultsProps) => {
  const shown = useSignal('')
  if (evidence.length === 0) return null
  const nodes = [...new Set(evidence.map(({ node }) => node))]
  return (
    <>
      <div class="heading">
        <h3>{text.title}</h3>
        {nodes.map(node => (
          <Readmit key={node} network={network} node={node} onChanged={onChanged} />
        ))}
      </div>
      <Table
        caption={`${text.title} ${network}`}
        keyOf={({ id }) => id}
        rows={evidence.slice(0, maxShown)}
        columns={[
          { title: text.time, isTime: true, cell: ({ time }) => formatSeconds(time) },
          { title: text.node, cell: ({ node }) => <span class="row-name">{node}</span> },
          { title: text.method, cell: ({ method }) => <code>{method}</code> },
          {
            title: text.cause,
            cell: ({ cause, proven }) => (
              <>
                <Badge tone={proven ? 'danger' : 'warn'}>{proven ? text.proven : text.contradicts}</Badge>
                <p class="help">{cause}</p>
              </>
            ),
          },
          {
            title: text.actions,
            cell: ({ id, node }) => <RowButton label={text.show} of={`${node} ${id}`} onClick={() => (shown.value = id)} />,
          },
        ]}
      />
      {evidence.length > maxShown && (
        <p class="help">
          {formatNumber(evidence.length - maxShown)} {text.more}
        </p>
      )}
      {shown.value !== '' && <Evidence id={shown.value} onClose={() => (shown.value = '')} />}
    </>
  )
}

/** What the node was sent, what it answered, and what proves that this is wrong. */
const Evidence = ({ id, onClose }: { readonly id: string; onClose(): void }) => {
  const evidence = useRequest<EvidenceJson>(`/evidence/${encodeURIComponent(id)}`, Infinity)
  return (
    <Dialog title={text.title} isWide onClose={onClose}>
      <WhenLoaded from={evidence} skeleton={<Skeleton height={14} />}>
        {({ time, node, network, method, cause, params, answer, answerBytes, answerSha256, header }) => (
          <>
            <p>
              {node} ({network}), {formatSeconds(time)}: {cause}
            </p>
            <h3>{text.sent}</h3>
            <pre tabIndex={0}>
              {method} {JSON.stringify(params, null, 2)}
            </pre>
            <h3>{text.answered}</h3>
            <pre tabIndex={0}>{answer}</pre>
            <p class="help">
              {formatNumber(answerBytes)} {text.bytes} <code>{answerSha256}</code>
            </p>
            {header !== null && (
              <>
                <h3>{text.header}</h3>
                <pre tabIndex={0}>{JSON.stringify(header, null, 2)}</pre>
              </>
            )}
            <div class="buttons end">
              <button type="button" class="quiet" onClick={onClose}>
                {texts.close}
              </button>
            </div>
          </>
        )}
      </WhenLoaded>
    </Dialog>
  )
}

const Readmit = ({ network, node, onChanged }: { readonly network: string; readonly node: string; onChanged(): void }) => {
  const isAsking = useSignal(false)
  const readmit = async (): Promise<void> => {
    await request('POST', `/nodes/${encodeURIComponent(network)}/${encodeURIComponent(node)}/clear-evidence`)
    onChanged()
  }
  return (
    <>
      <button type="button" class="quiet small" onClick={() => (isAsking.value = true)}>
        {text.readmit} {node}
      </button>
      {isAsking.value && (
        <ConfirmDialog title={`${text.readmit} ${node}`} action={text.readmit} confirm={readmit} onClose={() => (isAsking.value = false)}>
          {text.confirmReadmit}
        </ConfirmDialog>
      )}
    </>
  )
}
