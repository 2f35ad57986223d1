/** Any JSON value, as read from a message; never changed in place. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

export interface JsonObject {
  readonly [name: string]: Json
}

/** True for `{...}`; false for arrays and null. The type of the members is the caller's to know. */
export const isJsonObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The method of a JSON-RPC message that nothing has been checked about; undefined where it has none. */
export const methodNameOf = (message: unknown): string | undefined =>
  isJsonObject(message) && typeof message['method'] === 'string' ? message['method'] : undefined
