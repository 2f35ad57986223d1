/** The one place of import() with a URL: write-build-files.ts writes this file anew, as Node.js 20 refuses import() in kept code. */
export const importModule = (url: string): Promise<unknown> => import(url)
