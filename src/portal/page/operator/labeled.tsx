import type { ComponentChildren } from 'preact'

/** A control that has its name for those who do not see it, with a label above it as the fields beside it have. */
export const Labeled = ({ label, children }: { readonly label: string; readonly children: ComponentChildren }) => (
  <div class="field">
    <span class="label" aria-hidden="true">
      {label}
    </span>
    {children}
  </div>
)
