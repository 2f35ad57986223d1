import { followLink } from '../router.ts'
import { developerTexts } from './developer-texts.ts'

/** Where there are no calls yet. */
export const TryCallLink = () => (
  <a class="button" href="/try-it" onClick={followLink}>
    {developerTexts.overview.tryCall}
  </a>
)
