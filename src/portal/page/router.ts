import { batch, signal } from '@preact/signals'

/** `/keys/`, as people type it, is `/keys`. */
const readPath = (): string => location.pathname.replace(/(?<=.)\/$/, '')

/** The path of the page that is shown. */
export const path = signal(readPath())

/** The query of the address, which has the state of the page: a reload, the way back and a copy of the address keep it. */
export const query = signal<URLSearchParams>(new URLSearchParams(location.search))

const readAddress = (): void =>
  batch(() => {
    path.value = readPath()
    if (location.search !== toSearch(query.value)) query.value = new URLSearchParams(location.search)
  })

const toSearch = (members: URLSearchParams): string => (members.size === 0 ? '' : `?${members}`)

addEventListener('popstate', readAddress)

/** A path, perhaps with a query. */
export const navigate = (to: string): void => {
  // As browsers do, a link to the page that is shown is no step for the way back.
  if (to !== location.pathname + location.search) history.pushState(null, '', to)
  readAddress()
}

/** For links within the portal; a click with a modifier opens another tab, as browsers do. */
export const followLink = (event: MouseEvent): void => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return
  event.preventDefault()
  const { pathname, search } = event.currentTarget as HTMLAnchorElement
  navigate(pathname + search)
}

interface QueryChange {
  /** The change is no step for the way back, as each letter that is typed. */
  readonly isTyping?: boolean
}

/** The address with these members of the query changed: an empty value removes one. */
export const withQuery = (changes: Readonly<Record<string, string>>): string => {
  const members = new URLSearchParams(query.value)
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') members.delete(name)
    else members.set(name, value)
  }
  return location.pathname + toSearch(members)
}

/** Changes members of the query, as withQuery() does. */
export const changeQuery = (changes: Readonly<Record<string, string>>, { isTyping = false }: QueryChange = {}): void => {
  if (!isTyping) return navigate(withQuery(changes))
  history.replaceState(null, '', withQuery(changes))
  readAddress()
}

/** A member of the query; `initial` while the address does not have it, and then it is left out of the address. */
export const queryMember = (name: string, initial = '') => ({
  value: query.value.get(name) ?? initial,
  set: (value: string, options?: QueryChange) => changeQuery({ [name]: value === initial ? '' : value }, options),
})

/** The first row of a list, as Pager changes it, in a member of the query. */
export const pagerOffset = (member: ReturnType<typeof queryMember>) => ({
  get value(): number {
    return Number(member.value) || 0
  },
  set value(first: number) {
    member.set(first === 0 ? '' : String(first))
  },
})
