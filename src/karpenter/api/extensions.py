"""What extends an API server: custom resource definitions and admission webhooks.

Only the fields that list versions, name the services of webhooks, and hold their CA certificates.
"""

from typing import ClassVar

from karpenter.api.meta import Model, Resource


class ServiceReference(Model, frozen=True):
    namespace: str = ""
    name: str = ""


class WebhookClientConfig(Model, frozen=True):
    service: ServiceReference | None = None
    ca_bundle: str = ""  # certificates as PEM, in base64


class WebhookConversion(Model, frozen=True):
    client_config: WebhookClientConfig = WebhookClientConfig()


class Conversion(Model, frozen=True):
    strategy: str = ""
    webhook: WebhookConversion | None = None


class DefinedVersion(Model, frozen=True):
    name: str = ""
    served: bool = False
    storage: bool = False


class DefinitionSpec(Model, frozen=True):
    group: str = ""
    versions: tuple[DefinedVersion, ...] = ()
    conversion: Conversion = Conversion()


class DefinitionStatus(Model, frozen=True):
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(Resource, frozen=True):
    api_version: ClassVar[str] = "apiextensions.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


class Webhook(Model, frozen=True):
    name: str = ""
    client_config: WebhookClientConfig = WebhookClientConfig()


class MutatingWebhookConfiguration(Resource, frozen=True):
    api_version: ClassVar[str] = "admissionregistration.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    webhooks: tuple[Webhook, ...] = ()


class ValidatingWebhookConfiguration(Resource, frozen=True):
    api_version: ClassVar[str] = "admissionregistration.k8s.io/v1"
    namespaced: ClassVar[bool] = False

    webhooks: tuple[Webhook, ...] = ()
