import { followLink } from '../router.ts'
import { texts } from '../texts.ts'

/** Where there are no calls yet. */
export const TryCallLink = () => (
  <a class="button" href="/try-it" onClick={followLink}>
    {texts.overview.tryCall}
  </a>
)
