/** What shows the state of nodes: one file, as both need the same. */
export { Home } from './home.tsx'
export { Nodes } from './nodes.tsx'
