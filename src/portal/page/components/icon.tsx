/** Lines of 16 x 16, drawn in the color of the text. */
const paths = {
  overview: 'M2.5 2.5H7v5H2.5zM9 2.5h4.5v3H9zM9 7.5h4.5v6H9zM2.5 9.5H7v4H2.5z',
  usage: 'M2.5 13.5h11M4 11V8M8 11V3.5M12 11V6',
  requests: 'M6 4h7.5M6 8h7.5M6 12h7.5M2.5 4h.01M2.5 8h.01M2.5 12h.01',
  errors: 'M8 2.5 14 13H2zM8 6.5v3M8 11.2h.01',
  keys: 'M13.5 5.5a3 3 0 1 1-6 0 3 3 0 0 1 6 0zM8.3 7.7l-5.8 5.8M4.6 11.4l1.6 1.6M6.8 9.2l1.2 1.2',
  tryIt: 'M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3',
  networks: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM2 8h12M8 2c1.8 1.8 2.6 3.8 2.6 6S9.8 12.2 8 14c-1.8-1.8-2.6-3.8-2.6-6S6.2 3.8 8 2z',
  plan: 'M8 2l6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3',
  alerts: 'M4 6.5a4 4 0 0 1 8 0c0 3.5 1.5 4.5 1.5 4.5h-11S4 10 4 6.5zM6.5 13.5a1.6 1.6 0 0 0 3 0',
  people:
    'M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5c.3-2.5 2-4 4.5-4s4.2 1.5 4.5 4M11 3.2a2.4 2.4 0 0 1 0 4.6M12 9.8c1.5.5 2.4 1.8 2.5 3.7',
  person: 'M8 8a2.75 2.75 0 1 0 0-5.5A2.75 2.75 0 0 0 8 8zM2.5 13.5c.5-2.5 2.5-4 5.5-4s5 1.5 5.5 4',
  home: 'M2.5 7 8 2.5 13.5 7v6.5h-4v-4h-3v4h-4z',
  traffic: 'M1.5 8h3l2-5 3 10 2-5h3',
  nodes: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01',
  audit: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3l2 1.5',
  settings: 'M2.5 5h7M12.5 5h1M2.5 11h1M6.5 11h7M11 3.5v3M5 9.5v3',
  check: 'M3 8.5 6.5 12 13 4.5',
  chevronDown: 'M4 6l4 4 4-4',
  chevronRight: 'M6 4l4 4-4 4',
  close: 'M4 4l8 8M12 4l-8 8',
  copy: 'M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1',
  download: 'M8 2.5V10M4.5 7 8 10.5 11.5 7M2.5 13.5h11',
  external: 'M6 3H3v10h10v-3M9.5 3H13v3.5M13 3 7.5 8.5',
  info: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.2V11M8 5h.01',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  play: 'M4.5 3l8 5-8 5z',
  plus: 'M8 3v10M3 8h10',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5 14 14',
  signOut: 'M6.5 13.5h-4v-11h4M10.5 11l3-3-3-3M13.5 8H6',
  stop: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM3.8 3.8l8.4 8.4',
  dark: 'M13.5 9.5a5.8 5.8 0 0 1-7-7 5.8 5.8 0 1 0 7 7z',
  light: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1',
  table: 'M2 3h12v10H2zM2 6.4h12M2 9.7h12M6.5 6.4V13',
  system: 'M2 3h12v8H2zM6 14h4M8 11v3',
  wallet: 'M2.5 4.5h11V13h-11zM2.5 4.5l9-2v2M10.5 8.7h.01',
} as const

export type IconName = keyof typeof paths

export const iconNames = Object.keys(paths) as readonly IconName[] // of an object that has no other keys

/** Stands beside a text, which says the same. */
export const Icon = ({ name }: { readonly name: IconName }) => (
  <svg
    class="icon"
    viewBox="0 0 16 16"
    fill="none"
    stroke="currentColor"
    stroke-width={name === 'more' ? 2.2 : 1.5}
    stroke-linecap="round"
    stroke-linejoin="round"
    aria-hidden="true"
  >
    <path d={paths[name]} />
  </svg>
)
