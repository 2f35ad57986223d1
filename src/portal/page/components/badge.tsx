import type { ComponentChildren } from 'preact'

/** How good something is. */
export type Tone = 'ok' | 'warn' | 'danger' | 'accent' | 'neutral'

interface BadgeProps {
  readonly tone?: Tone
  /** A kind rather than a state: without the dot. */
  readonly isLabel?: boolean
  readonly children: ComponentChildren
}

/** The state of something, in a word and a color. */
export const Badge = ({ tone = 'neutral', isLabel = false, children }: BadgeProps) => (
  <span class={`badge ${tone}${isLabel ? ' label' : ''}`}>{children}</span>
)
