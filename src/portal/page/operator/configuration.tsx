import { useSignal } from '@preact/signals'
import { Fragment } from 'preact'
import type { ReceiverTestsJson, ReceiversJson } from '../../operations/alert-operations.ts'
import type { ConfigurationJson, ReloadJson } from '../../operator/configuration-routes.ts'
import { noAlertReceivers } from '../../state-labels.ts'
import { now } from '../clock.ts'
import { Badge } from '../components/badge.tsx'
import { Banner } from '../components/banner.tsx'
import { Notice, Select, WhenLoaded } from '../components/controls.tsx'
import { useSubmit } from '../components/form.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { TextWithCode } from '../components/text-with-code.tsx'
import { showToast } from '../components/toast.tsx'
import { formatMoment } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { queryMember } from '../router.ts'
import { DeliveryState } from './delivery-state.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.configuration

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

/** What is in force, and what the files would change. */
export const Configuration = () => {
  // To read all files takes the gateway some time.
  const loaded = useRequest<ConfigurationJson>('/configuration', Infinity)
  return (
    <WhenLoaded from={loaded}>
      {configuration => (
        <>
          <Pending configuration={configuration} readAgain={loaded.reload} />
          <Level level={configuration.logLevel} onChanged={logLevel => loaded.show({ ...configuration, logLevel })} />
          <OperatorAlerts />
          <Files configuration={configuration} />
        </>
      )}
    </WhenLoaded>
  )
}

/** Who is told of problems, and whether they get it. */
const OperatorAlerts = () => {
  const found = useRequest<ReceiversJson>('/operator-alerts')
  const tests = useSignal<ReceiverTestsJson['tests']>([])
  const { error, isSending, submit } = useSubmit(async () => {
    tests.value = (await request<ReceiverTestsJson>('POST', '/operator-alerts/test')).tests
  })
  const hasReceivers = (found.data.value?.receivers.length ?? 0) > 0
  return (
    <div>
      <div class="section-heading">
        <h2>{text.alerts}</h2>
        {hasReceivers && (
          <form class="buttons" onSubmit={submit}>
            <button type="submit" class="quiet" disabled={isSending.value}>
              {text.test}
            </button>
          </form>
        )}
      </div>
      <WhenLoaded from={found} skeleton={<Skeleton height={4} />}>
        {({ enabled, receivers }) =>
          receivers.length === 0 ? (
            <p class="lead sentence">
              <TextWithCode text={noAlertReceivers} />
            </p>
          ) : (
            <>
              <p class="lead">{text.alertsHelp}</p>
              {!enabled && <Notice text={operatorTexts.alerts.notEnabled} />}
              <Receivers receivers={receivers} tests={tests.value} />
            </>
          )
        }
      </WhenLoaded>
      <Notice text={error.value?.message} />
    </div>
  )
}

interface ReceiversProps {
  readonly receivers: ReceiversJson['receivers']
  /** How the test messages ended, where some were sent. */
  readonly tests: ReceiverTestsJson['tests']
}

const Receivers = ({ receivers, tests }: ReceiversProps) => (
  <div role="status">
    <Table
      caption={text.alerts}
      keyOf={({ channel, receiver }) => `${channel} ${receiver}`}
      rows={receivers}
      columns={[
        { title: text.receiver, cell: ({ channel, receiver }) => `${receiver} (${text.channels[channel]})` },
        { title: text.severity, cell: ({ severity }) => text.fromSeverity[severity] },
        {
          title: text.lastMessage,
          cell: ({ last }) =>
            last === null ? (
              <span class="since">{text.nothingSent}</span>
            ) : (
              <>
                {last.text}
                <p>
                  <DeliveryState {...last} /> <span class="since one-line">{formatMoment(last.created, now.value)}</span>
                </p>
              </>
            ),
        },
        ...(tests.length === 0
          ? []
          : [
              {
                title: text.result,
                cell: ({ channel, receiver }: ReceiversJson['receivers'][number]) =>
                  tests
                    .filter(each => each.channel === channel && each.receiver === receiver)
                    .map(({ isDelivered, status }) => (
                      <Fragment key={status}>
                        <Badge tone={isDelivered ? 'ok' : 'danger'}>{isDelivered ? text.delivered : text.notDelivered}</Badge> {status}
                      </Fragment>
                    )),
              },
            ]),
      ]}
    />
  </div>
)

interface PendingProps {
  readonly configuration: ConfigurationJson
  readAgain(): void
}

const Pending = ({ configuration: { changes, differences, problems, unserved }, readAgain }: PendingProps) => {
  const { error, isSending, submit } = useSubmit(async () => {
    const { applied, changes } = await request<ReloadJson>('POST', '/configuration/reload')
    const count = changes.filter(({ needsRestart }) => !needsRestart).length
    showToast(applied ? (count === 0 ? text.nothingApplied : `${text.applied} ${count}`) : text.refused, applied ? 'ok' : 'danger')
    readAgain()
  })
  const needsReload = changes.some(({ needsRestart }) => !needsRestart)
  return (
    <div>
      <div class="section-heading">
        <h2>{text.pending}</h2>
        <form class="buttons" onSubmit={submit}>
          <button type="button" class="quiet" onClick={readAgain}>
            {text.readAgain}
          </button>
          <button type="submit" class={needsReload ? undefined : 'quiet'} disabled={isSending.value}>
            {text.reload}
          </button>
        </form>
      </div>
      <Notice text={error.value?.message} />
      {problems.length > 0 && <Banner tone="danger" title={text.wouldBeRefused} />}
      {problems.length > 0 && (
        <Table
          caption={text.problems}
          keyOf={({ file, line, column, message }) => [file, line, column, message].join(':')}
          rows={problems}
          columns={[
            { title: text.place, cell: ({ file, line, column }) => <code>{file === null ? '–' : `${file}:${line}:${column}`}</code> },
            { title: text.problem, cell: ({ message, hint }) => (hint === null ? message : `${message}; ${hint}`) },
          ]}
        />
      )}
      {problems.length === 0 && changes.length === 0 && <p class="lead">{text.nothingPending}</p>}
      {changes.length > 0 && (
        <Table
          caption={text.pending}
          keyOf={({ kind, path }) => `${kind} ${path}`}
          rows={changes}
          columns={[
            { title: text.path, cell: ({ path }) => <code>{path}</code> },
            { title: text.kind, cell: ({ kind }) => <Badge tone={changeTones[kind]}>{text.kinds[kind]}</Badge> },
            { title: text.takesEffect, cell: ({ needsRestart }) => (needsRestart ? text.afterRestart : text.afterReload) },
          ]}
        />
      )}
      {differences.map(({ file, lines }) => (
        <Difference key={file} file={file} lines={lines} />
      ))}
      {unserved.map(({ network, variables }) => (
        <p key={network} class="lead">
          {network}: {text.unserved} {variables.join(', ')}
        </p>
      ))}
    </div>
  )
}

const signs = { same: ' ', added: '+', removed: '−' } as const

/** What differs in a file, line by line, as in reviews of code. */
const Difference = ({ file, lines }: ConfigurationJson['differences'][number]) => (
  <>
    <h3>
      <code class="breakable">{file}</code>
    </h3>
    <pre class="file diff" tabIndex={0} data-testid="difference">
      {lines.map((line, i) => (
        <span key={i} class={line?.kind}>
          {line === null ? '…' : `${signs[line.kind]} ${line.text}`}
          {'\n'}
        </span>
      ))}
    </pre>
  </>
)

const changeTones = { added: 'ok', changed: 'warn', removed: 'danger' } as const

interface LevelProps {
  readonly level: ConfigurationJson['logLevel']
  onChanged(level: ConfigurationJson['logLevel']): void
}

const Level = ({ level, onChanged }: LevelProps) => {
  const error = useSignal<string | undefined>(undefined)
  const change = async (to: ConfigurationJson['logLevel']): Promise<void> => {
    try {
      onChanged((await request<{ readonly level: ConfigurationJson['logLevel'] }>('PATCH', '/log-level', { level: to })).level)
      error.value = undefined
    } catch (reason) {
      error.value = (reason as Error).message // request() throws nothing else
    }
  }
  return (
    <div>
      <div class="section-heading">
        <h2>{text.logging}</h2>
      </div>
      <div class="controls">
        <Select label={text.logLevel} options={levels} value={level} onChange={to => void change(to)} />
      </div>
      <p class="lead">{text.logLevelHelp}</p>
      <Notice text={error.value} />
    </div>
  )
}

const Files = ({ configuration: { files } }: { readonly configuration: ConfigurationJson }) => {
  const chosen = queryMember('file', files[0]?.file)
  const shown = files.find(({ file }) => file === chosen.value) ?? files[0]
  if (shown === undefined) return null
  // A narrow window cuts the end of a path, which is what tells files apart.
  const folder = files[0]?.file.replace(/[^/\\]*$/, '') ?? ''
  return (
    <div>
      <div class="section-heading">
        <h2>{text.files}</h2>
      </div>
      <div class="controls">
        <Select
          label={text.file}
          options={files.map(({ file }) => ({ value: file, label: file.startsWith(folder) ? file.slice(folder.length) : file }))}
          value={shown.file}
          onChange={chosen.set}
        />
      </div>
      <p class="lead">
        {text.filesHelp} <code class="breakable">{shown.file}</code>
      </p>
      <pre class="file" tabIndex={0} data-testid="effective-file">
        {shown.text}
      </pre>
    </div>
  )
}
