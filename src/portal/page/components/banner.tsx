import type { ComponentChildren } from 'preact'
import { Icon } from './icon.tsx'
import type { IconName } from './icon.tsx'

interface BannerProps {
  readonly tone: 'ok' | 'info' | 'warn' | 'danger'
  readonly title: string
  readonly children?: ComponentChildren
  readonly icon?: IconName
}

const icons = { ok: 'check', info: 'info', warn: 'errors', danger: 'stop' } as const

/** What must be known before anything else is read. What is urgent is announced. */
export const Banner = ({ tone, title, children, icon = icons[tone] }: BannerProps) => (
  <section class={`banner ${tone}`} role={tone === 'danger' ? 'alert' : 'status'}>
    <Icon name={icon} />
    <div>
      <strong>{title}</strong>
      {children !== undefined && <p>{children}</p>}
    </div>
  </section>
)
