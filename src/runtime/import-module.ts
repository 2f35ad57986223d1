/** The one place of import() with a URL: in the bundle, whose other files have require() in its place, write-bundle.ts writes this file anew. */
export const importModule = (url: string): Promise<unknown> => import(url)
