import { join, resolve } from 'node:path'
import type { Clock } from '../services/clock.ts'
import { ContentWatch } from '../services/content-watch.ts'
import { yamlBaseNames } from './config-files.ts'

/** Watches the YAML files of a configuration directory. */
export type FileWatch = Pick<ContentWatch, 'start' | 'acknowledge' | 'stop'>

export const openFileWatch = (dir: string, clock: Clock): FileWatch => {
  const folders = ['', 'networks', 'methods'].map(name => resolve(dir, name))
  const files = () => folders.flatMap(folder => yamlBaseNames(folder).map(name => join(folder, `${name}.yaml`)))
  return new ContentWatch({ folders, files }, clock)
}
