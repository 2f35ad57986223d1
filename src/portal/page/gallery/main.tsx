import { useSignal } from '@preact/signals'
import { render } from 'preact'
import type { ComponentChildren } from 'preact'
import { Badge } from '../components/badge.tsx'
import { Banner } from '../components/banner.tsx'
import { Chart, failedSeries, groupColor, maxGroups } from '../components/chart.tsx'
import { Checkbox, CopyCode, CopyText, Notice, SearchField, Select, TextField } from '../components/controls.tsx'
import { ConfirmDialog, Dialog } from '../components/dialog.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Bar, Figure, Sparkline } from '../components/figure.tsx'
import { Form } from '../components/form.tsx'
import { Icon, iconNames } from '../components/icon.tsx'
import { Menu } from '../components/menu.tsx'
import { MultiSelect } from '../components/multi-select.tsx'
import { Brand, ThemeSwitch } from '../components/shell.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments, Tabs } from '../components/tabs.tsx'
import { showToast, Toasts } from '../components/toast.tsx'

// Each component in each of its states, for those who work on the pages, and for test/portal/page-components.test.ts.

const Section = ({ title, children }: { readonly title: string; readonly children: ComponentChildren }) => (
  <section class="card" aria-label={title}>
    <h2>{title}</h2>
    {children}
  </section>
)

const Buttons = () => (
  <Section title="Buttons">
    <div class="buttons">
      <button type="button">First</button>
      <button type="button" class="quiet">
        Quiet
      </button>
      <button type="button" class="plain">
        Plain
      </button>
      <button type="button" class="danger">
        Danger
      </button>
      <button type="button" class="danger final">
        Final
      </button>
      <button type="button" disabled>
        Disabled
      </button>
      <button type="button" class="quiet small">
        <Icon name="plus" />
        Small
      </button>
      <button type="button" class="plain icon-button" aria-label="Icon">
        <Icon name="close" />
      </button>
      <a class="button" href="#link">
        Anchor
      </a>
    </div>
  </Section>
)

const States = () => (
  <Section title="States">
    <p class="buttons">
      <Badge>neutral</Badge>
      <Badge tone="ok">active</Badge>
      <Badge tone="warn">lagging</Badge>
      <Badge tone="danger">revoked</Badge>
      <Badge tone="accent">new</Badge>
      <Badge isLabel>label</Badge>
    </p>
    <Banner tone="ok" title="It works.">
      The first call arrived.
    </Banner>
    <Banner tone="info" title="What is new." />
    <Banner tone="warn" title="85 % of the credits of today are used.">
      At this rate they last until <a href="#link">22:10 UTC</a>.
    </Banner>
    <Banner tone="danger" title="The credits of today are used up." />
    <Notice text="The gateway cannot be reached." />
  </Section>
)

const Figures = () => (
  <Section title="Figures">
    <div class="cards">
      <Figure label="Hero" value="2,984,000" size="hero" note="of 3,000,000" />
      <Figure label="Normal" value="26,246" unit="credits/h" note="Lasts the day." />
      <Figure label="Warning" value="412" tone="warn" note="82 % used" />
      <Figure label="Danger" value="0" tone="danger" note="Calls are refused." />
      <Figure label="Small" value="core" size="small" />
    </div>
    <Bar label="A tenth" value={10} max={100} />
    <Bar label="Four fifths" value={80} max={100} tone="warn" />
    <Bar label="All" value={120} max={100} tone="danger" />
    <Bar label="Thin" value={30} max={100} isThin />
    <Sparkline label="Calls of a day" values={[0, 3, 9, 14, 8, 2, 0, 0, 1, 5, 12, 20]} />
  </Section>
)

const Fields = () => {
  const chosen = useSignal<'day' | 'month'>('day')
  const search = useSignal('')
  const choose = (value: 'day' | 'month') => void (chosen.value = value)
  return (
    <Section title="Fields">
      <div class="controls">
        <Select label="Select" options={['day', 'month']} value={chosen.value} onChange={choose} />
        <Segments label="Segments" options={['day', 'month'].map(toOption)} value={chosen.value} onChange={choose} />
        <SearchField label="Search" value={search.value} onInput={value => (search.value = value)} />
      </div>
      <Form title="Form" send={async values => String(values.get('methods'))} success={answer => `Sent: ${answer}`}>
        {() => (
          <>
            <TextField label="Text" name="text" help="What may be typed." placeholder="my dApp" />
            <TextField label="Wrong text" name="wrong" value="devnt" error="There is no network devnt; did you mean devnet?" />
            <MultiSelect label="Methods" name="methods" options={methods} value={['eth_call']} placeholder="Every method" />
            <MultiSelect label="Origins" name="origins" options={[]} placeholder="Every page" error="Not the URL of a page." isFree />
            <Checkbox label="Checkbox" name="check" isChecked />
          </>
        )}
      </Form>
    </Section>
  )
}

const toOption = (value: string) => ({ value: value as 'day' | 'month', label: value }) // as listed there

const methods = ['eth_blockNumber', 'eth_call', 'eth_chainId', 'eth_gasPrice', 'eth_getBalance', 'eth_getLogs']

const Data = () => (
  <Section title="Data">
    <Table
      caption="Rows that become cards"
      keyOf={row => row}
      rows={methods}
      total="Total"
      columns={[
        { title: 'Method', cell: row => <code>{row}</code> },
        { title: 'Calls', isNumber: true, cell: row => `${row.length},000` },
        { title: 'Share', isNumber: true, cell: row => `${row.length} %` },
        { title: 'State', cell: row => <Badge tone={row.length > 8 ? 'ok' : 'warn'}>state</Badge> },
        { title: 'Last call', isTime: true, cell: () => '2026-01-31 14:05 UTC' },
        { title: 'Actions', cell: row => row !== methods[0] && <Menu label={`Actions of ${row}`} items={menuItems} /> },
      ]}
    />
    <Table
      caption="Rows that become lines"
      keyOf={row => row}
      rows={methods}
      columns={[
        { title: 'Time', narrow: 'end', cell: () => '14:05:09' },
        {
          title: 'State',
          narrow: 'state',
          cell: row => (
            <Badge tone={row.length > 8 ? 'ok' : 'danger'}>
              <span>state</span>
            </Badge>
          ),
        },
        { title: 'Method', narrow: 'name', cell: row => <code>{row}</code> },
        { title: 'Key', narrow: 'rest', cell: row => row.slice(4) },
        { title: 'Duration', narrow: 'restEnd', isNumber: true, cell: () => '0.33 ms' },
        { title: 'Network', cell: () => 'ethereum-mainnet' },
        { title: 'Credits', isNumber: true, cell: () => '80' },
      ]}
    />
    <Table
      caption="Rows of two columns"
      keyOf={row => row}
      rows={methods.slice(0, 2)}
      columns={[
        { title: 'Method', cell: row => <code>{row}</code> },
        { title: 'Credits', isNumber: true, cell: () => '80' },
      ]}
    />
    <Tabs
      label="Code"
      tabs={[
        { id: 'curl', title: 'curl', content: () => <CopyCode text="curl -s http://127.0.0.1:8080/v3/API_KEY" label="curl" /> },
        { id: 'viem', title: 'viem', content: () => <CopyCode text="import { createPublicClient } from 'viem'" label="viem" /> },
        { id: 'url', title: 'URL', content: () => <CopyText text="http://127.0.0.1:8080/v3/API_KEY" label="URL" /> },
      ]}
    />
  </Section>
)

const hours = Array.from({ length: 24 }, (_, i) => new Date(Date.now() - (23 - i) * 3_600_000).toISOString())

const waveOf = (height: number): readonly number[] => hours.map((_, i) => Math.round(height * (1.2 + Math.sin(i / 4))))

const Charts = () => (
  <Section title="Charts">
    <Chart
      title="Columns"
      times={hours}
      end={new Date(Date.now() + 3_600_000).toISOString()}
      series={[
        failedSeries(waveOf(4)),
        ...methods.map((name, i) => ({ id: name, name, color: groupColor(i), points: waveOf(10 + 8 * i) })),
        { id: 'others', name: 'Others', color: groupColor(maxGroups), points: waveOf(12) },
        { id: 'empty', name: 'Empty', color: groupColor(3), points: hours.map(() => 0) },
      ]}
      limit={{ label: 'Limit', value: 500 }}
      onPickTime={(from, to) => showToast(`${from} ${to}`)}
      onPickSeries={id => showToast(id)}
    />
    <Chart
      title="Lines"
      kind="lines"
      times={hours}
      end={new Date(Date.now() + 3_600_000).toISOString()}
      series={[{ id: 'p50', name: 'p50', color: groupColor(0), points: waveOf(20).map((ms, i) => (i === 7 ? null : ms)) }]}
    />
    <Chart
      title="One point"
      kind="lines"
      times={hours}
      series={[{ id: 'p95', name: 'p95', color: groupColor(0), points: hours.map((_, i) => (i === 7 ? 42 : null)) }]}
    />
  </Section>
)

const menuItems = [
  { label: 'Change', onSelect: () => showToast('Changed.') },
  { label: 'Revoke', isDangerous: true, onSelect: () => showToast('It could not be revoked.', 'danger') },
]

const Waiting = () => (
  <Section title="Waiting">
    <EmptyState icon="keys" title="No keys yet" actions={<button type="button">Create a key</button>}>
      A key opens the networks to your dApp.
    </EmptyState>
    <Skeleton lines={3} />
    <Skeleton height={6} />
  </Section>
)

const Overlays = () => {
  const shown = useSignal<'dialog' | 'question' | undefined>(undefined)
  const close = () => void (shown.value = undefined)
  return (
    <Section title="Overlays">
      <div class="buttons">
        <button type="button" class="quiet" onClick={() => (shown.value = 'dialog')}>
          Open a dialog
        </button>
        <button type="button" class="danger" onClick={() => (shown.value = 'question')}>
          Ask a question
        </button>
        <Menu label="A menu" items={menuItems} />
      </div>
      {shown.value === 'dialog' && (
        <Dialog title="A dialog" onClose={close}>
          <Form title="Create" heading="none" send={async () => close()} onCancel={close}>
            {() => (
              <>
                <TextField label="Name" name="name" required />
                <MultiSelect label="Networks" name="networks" options={methods} placeholder="Every network" />
              </>
            )}
          </Form>
        </Dialog>
      )}
      {shown.value === 'question' && (
        <ConfirmDialog title="Revoke the key?" action="Revoke" confirm={async () => showToast('Revoked.')} onClose={close}>
          Calls with it are refused within a second. This cannot be undone.
        </ConfirmDialog>
      )}
    </Section>
  )
}

const Icons = () => (
  <Section title="Icons">
    <p class="buttons">
      {iconNames.map(name => (
        <span key={name} title={name}>
          <Icon name={name} />
        </span>
      ))}
    </p>
  </Section>
)

const Gallery = () => (
  <main>
    <Brand />
    <div class="page-heading">
      <h1>Components</h1>
      <ThemeSwitch />
    </div>
    <Buttons />
    <States />
    <Figures />
    <Fields />
    <Data />
    <Waiting />
    <Overlays />
    <Icons />
    <Charts />
    <Toasts />
  </main>
)

const root = document.getElementById('app')
if (root !== null) render(<Gallery />, root)
