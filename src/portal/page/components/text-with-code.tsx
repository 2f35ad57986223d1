/** What the API, and texts for terminals, have between backticks is code here. */
export const TextWithCode = ({ text }: { readonly text: string }) => (
  <>{text.split(/`([^`]+)`/).map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>
)
