import type { ComponentChildren } from 'preact'

export type Fact = readonly [name: string, value: ComponentChildren]

interface FactsProps {
  readonly of: readonly Fact[]
  readonly label?: string
  /** Wider ones, after the others. */
  readonly children?: ComponentChildren
}

/** Names and their values, as many side by side as there is room for. */
export const Facts = ({ of, label, children }: FactsProps) => (
  <dl class="facts" aria-label={label}>
    {of.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
    {children}
  </dl>
)
