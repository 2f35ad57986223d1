const { name = 'Tollgate', logo, support, host = '' } = document.documentElement.dataset

/** What the page shows in place of Tollgate, as the gateway has written it into the HTML. The color is in a style sheet. */
export const brand = { name, logo, support } as const

/** The name of the machine, container or pod of the gateway; on the operator's page alone. */
export const gatewayHost = host
