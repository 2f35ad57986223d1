import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { OwnKeyJson } from '../../routes/keys.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import { Badge } from '../components/badge.tsx'
import { TextField, WhenLoaded } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Form, ShownOnce } from '../components/form.tsx'
import { Icon } from '../components/icon.tsx'
import type { IconName } from '../components/icon.tsx'
import type { IssuedKey } from '../components/key-actions.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { request, useRequest } from '../request.ts'
import type { Loaded } from '../request.ts'
import { followLink } from '../router.ts'
import { developerTexts } from './developer-texts.ts'
import { session } from './developer-session.ts'
import { pickUnusedNetwork } from './preferred-network.ts'
import { findKey, isGuideOpen, newKey, savedKey, showNewKey } from './tab-key.ts'
import { TryCallLink } from './try-call-link.tsx'
import { UseKey } from './use-key.tsx'

const text = developerTexts.firstRun

interface NoCallsProps {
  readonly hasCalls: boolean
  readonly networks: Loaded<readonly NetworkJson[]>
}

/** In place of the chart where there are no calls: the way to the first one. An account that had calls before needs no guide. */
export const NoCalls = (props: NoCallsProps) => {
  const keys = useRequest<readonly OwnKeyJson[]>('/keys')
  return (
    <WhenLoaded from={keys} skeleton={<Skeleton height={24} />}>
      {found =>
        isGuideOpen.value || found.every(({ lastUsed }) => lastUsed === null) ? (
          <FirstRun {...props} keys={found} onCreated={keys.reload} />
        ) : (
          <EmptyState icon="usage" title={developerTexts.overview.noCalls} actions={<TryCallLink />} />
        )
      }
    </WhenLoaded>
  )
}

interface FirstRunProps extends NoCallsProps {
  readonly keys: readonly OwnKeyJson[]
  onCreated(): void
}

const FirstRun = ({ keys, hasCalls, networks, onCreated }: FirstRunProps) => {
  const active = keys.filter(({ state }) => state === 'active')
  const created = newKey.value
  const before = useRef(created).current
  const unsaved = created === undefined || created.id === savedKey.value || hasCalls ? undefined : created
  const known = created ?? active.find(findKey)
  const hasKey = unsaved === undefined && (created !== undefined || active.length > 0)
  useEffect(() => {
    isGuideOpen.value = true
  }, [])
  return (
    <section class={hasCalls ? 'card guide done' : 'card guide'} aria-label={text.title}>
      <div class="heading">
        <h2>{hasCalls ? text.works : text.title}</h2>
        {hasCalls && (
          <button type="button" class="quiet" onClick={() => (isGuideOpen.value = false)}>
            {developerTexts.close}
          </button>
        )}
      </div>
      <ol class="steps">
        <Step title={text.createKey} state={hasKey ? 'done' : 'current'}>
          {unsaved !== undefined ? (
            <SaveKey created={unsaved} isNew={unsaved !== before} />
          ) : hasKey ? (
            <p class="lead">
              {text.hasKey} {(created === undefined ? active : [created]).map(({ name, hint }) => `${name} …${hint}`).join(', ')}
            </p>
          ) : (
            <CreateFirstKey onCreated={onCreated} />
          )}
        </Step>
        <Step title={text.call} state={hasCalls ? 'done' : hasKey ? 'current' : 'later'}>
          {hasKey && (
            <>
              {known === undefined && <p class="lead">{text.replaceKey}</p>}
              <UseKey
                networks={networks}
                pickNetwork={pickUnusedNetwork}
                secret={known && findKey(known)}
                {...(known !== undefined && { limits: known })}
              />
            </>
          )}
          <p role="status" data-testid="first-call">
            {hasCalls ? <Badge tone="ok">{text.arrived}</Badge> : hasKey && <Badge tone="accent">{text.waiting}</Badge>}
          </p>
        </Step>
        <Step title={text.next} state={hasCalls ? 'current' : 'later'}>
          <ul class="links">
            {nextSteps.map(({ path, icon, title, why }) => (
              <li key={title}>
                <a href={path} onClick={followLink}>
                  <Icon name={icon} />
                  <span>
                    <strong>{title}</strong>
                    <small>{why}</small>
                  </span>
                </a>
              </li>
            ))}
          </ul>
        </Step>
      </ol>
    </section>
  )
}

const nextSteps: readonly { readonly path: string; readonly icon: IconName; readonly title: string; readonly why: string }[] = [
  { path: '/keys', icon: 'keys', ...text.limitKey },
  { path: '/alerts', icon: 'alerts', ...text.setAlert },
  { path: '/usage', icon: 'usage', ...text.seeUsage },
  { path: '/access', icon: 'people', ...text.invite },
]

interface StepProps {
  readonly title: string
  readonly state: 'done' | 'current' | 'later'
  readonly children: ComponentChildren
}

const Step = ({ title, state, children }: StepProps) => (
  <li class={state} aria-current={state === 'current' ? 'step' : undefined}>
    <span class="step-mark" aria-hidden="true">
      {state === 'done' && <Icon name="check" />}
    </span>
    <div>
      <h3>{title}</h3>
      {children}
    </div>
  </li>
)

const SaveKey = ({ created: { id, key }, isNew }: { readonly created: IssuedKey; readonly isNew: boolean }) => {
  const goOn = (): void => void (savedKey.value = id)
  return (
    <>
      <ShownOnce isNew={isNew} help={developerTexts.keys.saveNow} text={key} label={developerTexts.keys.newKey} onCopied={goOn} />
      <p>
        <button type="button" class="quiet" onClick={goOn}>
          {developerTexts.keys.saved}
        </button>
      </p>
    </>
  )
}

const CreateFirstKey = ({ onCreated }: { onCreated(): void }) => {
  if (session.value?.person.role === 'viewer') return <p class="lead">{developerTexts.keys.viewerOnly}</p>
  const create = async (values: FormData): Promise<void> => {
    showNewKey(await request<IssuedKey>('POST', '/keys', { name: String(values.get('name')).trim() }))
    onCreated()
  }
  return (
    <Form title={developerTexts.keys.create} heading="none" send={create}>
      {errorOf => <TextField label={developerTexts.keys.name} name="name" required value={text.keyName} error={errorOf('name')} />}
    </Form>
  )
}
