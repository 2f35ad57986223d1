import { followLink } from '../router.ts'
import { developerTexts } from './developer-texts.ts'

const { plan, keys } = developerTexts.pages

/** By the names of the pages that advice sends to. */
const paths: Readonly<Record<string, string>> = { [plan]: '/plan', [keys]: '/keys' }

const pageNames = new RegExp(`(?<=\\bpage )(${Object.keys(paths).join('|')})\\b`)

/** What to do about a failed call; the names of pages lead to them. */
export const Advice = ({ text }: { readonly text: string }) => (
  <>
    {text.split(pageNames).map(part => {
      const path = paths[part]
      return path === undefined ? (
        part
      ) : (
        <a key={part} href={path} onClick={followLink}>
          {part}
        </a>
      )
    })}
  </>
)
