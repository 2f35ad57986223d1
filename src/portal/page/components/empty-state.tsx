import type { ComponentChildren } from 'preact'
import { Icon } from './icon.tsx'
import type { IconName } from './icon.tsx'

interface EmptyStateProps {
  readonly icon: IconName
  readonly title: string
  /** Why there is nothing, or what would be here. */
  readonly children?: ComponentChildren
  /** What to do. */
  readonly actions?: ComponentChildren
}

/** In place of a list or a chart that has nothing yet. */
export const EmptyState = ({ icon, title, children, actions }: EmptyStateProps) => (
  <section class="empty">
    <Icon name={icon} />
    <h2>{title}</h2>
    {children !== undefined && <div class="why">{children}</div>}
    {actions !== undefined && <div class="buttons">{actions}</div>}
  </section>
)
