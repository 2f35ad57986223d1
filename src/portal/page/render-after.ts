import { render } from 'preact'
import type { ComponentChildren } from 'preact'
import { firstResponses } from './request.ts'

/** Without responses in this time, the page is drawn as it is while it loads. */
const maxWaitMs = 100

/** Draws the page when it has what it shows at first: a page that is drawn part by part moves, and takes the browser twice the CPU. */
export const renderAfter = async (loaded: Promise<unknown>, page: ComponentChildren): Promise<void> => {
  const root = document.getElementById('app')
  const waited = new Promise(resolve => setTimeout(resolve, maxWaitMs))
  await Promise.race([Promise.all([loaded, firstResponses]), waited])
  if (root !== null) render(page, root)
}
