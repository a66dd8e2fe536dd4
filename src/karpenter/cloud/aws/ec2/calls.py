"""Calls to AWS: boto3 in threads, errors by class, retries on the clock, every call observable.

This is the only module that touches boto3, and the only one where a value may be of any type.
A call names its service and its operation as AWS spells them::

    answer = await calls.call("ec2", "DescribeSubnets", Filters=[...])
    subnets = await calls.pages("ec2", "DescribeSubnets", "Subnets", MaxResults=500)

Retries are made here and not inside boto3, so that waiting is on the clock; one call keeps its
idempotency token through all of its attempts, so a lost answer never launches twice.

Each service has its own thread pool, so that queue messages are read while EC2 hangs, and reads and
writes have separate pools. Each operation has its own rate limit, because AWS throttles per
operation.
"""

import asyncio
import importlib
import random
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from karpenter import __version__
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.errors import (
    RETRYABLE,
    AwsCredentialsError,
    AwsError,
    AwsUnreachableError,
    error_of,
)
from karpenter.cloud.aws.ec2.pace import Pace
from karpenter.cloud.aws.ec2.reads import check_read, is_read, refuse_writes
from karpenter.cloud.registry import ProviderError

T = TypeVar("T")

ATTEMPTS: Final = 5
WORKERS: Final = 64  # concurrent calls of one service, for reads and for writes
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 20.0
_CONNECT_SECONDS: Final = 10.0
_READ_SECONDS: Final = 60.0
# Synchronous operations: an instant fleet of a thousand instances takes minutes
_SLOW_READ_SECONDS: Final = {("ec2", "CreateFleet"): 240.0}
_PAGE_TOKENS: Final = {
    "iam": "Marker",
    "savingsplans": "nextToken",
}  # by service; of others NextToken
_SUCCESS: Final = "200"


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call that was made, as observers see it once its answer is there."""

    service: str
    operation: str
    parameters: Mapping[str, Any]
    code: str  # "200", or the code of the error
    seconds: float
    attempts: int
    region: str


Observer = Callable[[CompletedCall], None]


class Calls(Protocol):
    """The interface to AWS that the modules of this provider use."""

    @property
    def region(self) -> str: ...

    async def call(
        self,
        service: str,
        operation: str,
        *,
        region: str = "",
        retries: bool = True,
        **parameters: Any,
    ) -> dict[str, Any]:
        """Make one call and return its answer.

        Args:
            service: as boto3 names it, such as ``ec2``.
            operation: as AWS spells it, such as ``DescribeSubnets``.
            region: where to call, if not in the region of this controller.
            retries: whether to retry transient errors.
            parameters: the parameters of the operation.

        Raises:
            AwsError: the call was refused, or no answer came.
        """

    async def pages(
        self, service: str, operation: str, items: str, *, region: str = "", **parameters: Any
    ) -> list[Any]:
        """Make as many calls as there are pages, and return the ``items`` of all of them."""


class AwsCalls:
    """AWS, through boto3."""

    def __init__(
        self,
        session: Any,
        clock: Clock,
        rng: random.Random,
        *,
        endpoint_url: str = "",
        observe: Observer | None = None,
        workers: int = WORKERS,
        only_reads: bool = False,
    ) -> None:
        """Make calls with a boto3 ``session``, whose region must be known.

        Args:
            session: a boto3 session.
            clock: the clock for retries.
            rng: where jitter and idempotency tokens come from.
            endpoint_url: where all services are, in place of AWS itself.
            observe: called after every call, in the thread of the event loop.
            workers: the concurrent reads, and the concurrent writes, of one service.
            only_reads: refuse every call that may change something.
        """
        self.observe = observe
        self._only_reads = only_reads
        self._session = session
        self._clock = clock
        self._rng = rng
        self._endpoint_url = endpoint_url or None
        self._workers = workers
        self._pools: dict[str, ThreadPoolExecutor] = {}  # by service, reads and writes apart
        self._clients: dict[tuple[str, str, float], Any] = {}  # by service, region and timeout
        self._making_client = threading.Lock()
        self._paces: dict[tuple[str, str, str], Pace] = {}  # by service, region and operation

    @property
    def region(self) -> str:
        """The region of this controller."""
        return str(self._session.region_name)

    async def call(
        self,
        service: str,
        operation: str,
        *,
        region: str = "",
        retries: bool = True,
        **parameters: Any,
    ) -> dict[str, Any]:
        """Make one call and return its answer."""
        if self._only_reads:
            check_read(service, operation)
        where = region or self.region
        client = await self._client(service, where, operation)
        self._add_token(client, operation, parameters)
        pace = self._pace(service, where, operation)
        began = self._clock.monotonic()
        attempts = 0
        code = _SUCCESS
        try:
            while True:
                attempts += 1
                await pace.take()
                try:
                    return await self._attempt(client, service, operation, parameters)
                except RETRYABLE as error:
                    pace.note(error)
                    if not retries or attempts >= ATTEMPTS:
                        raise
                await self._clock.sleep(self._delay(attempts))
        except AwsError as error:
            code = error.code
            raise
        finally:
            if self.observe is not None:
                seconds = self._clock.monotonic() - began
                made = CompletedCall(service, operation, parameters, code, seconds, attempts, where)
                self.observe(made)

    async def pages(
        self, service: str, operation: str, items: str, *, region: str = "", **parameters: Any
    ) -> list[Any]:
        """Make as many calls as there are pages, and return the ``items`` of all of them."""
        token = _PAGE_TOKENS.get(service, "NextToken")
        found: list[Any] = []
        asked = dict(parameters)
        while True:
            answer = await self.call(service, operation, region=region, **asked)
            found.extend(answer.get(items) or ())
            following = answer.get(token)
            if not following:
                return found
            asked[token] = following

    async def close(self) -> None:
        """Release the threads; calls under way end by themselves."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    async def _attempt(
        self, client: Any, service: str, operation: str, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        work = partial(_call, client, service, operation, parameters)
        return await self._in_thread(_pool_name(service, operation), work)

    async def _in_thread(self, name: str, work: Callable[[], T]) -> T:
        pool = self._pools.get(name)
        if pool is None:
            pool = ThreadPoolExecutor(self._workers, thread_name_prefix=f"aws-{name}")
            self._pools[name] = pool
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    async def _client(self, service: str, region: str, operation: str = "") -> Any:
        patience = _SLOW_READ_SECONDS.get((service, operation), _READ_SECONDS)
        client = self._clients.get((service, region, patience))
        if client is not None:
            return client
        make = partial(self._make_client, service, region)
        if patience != _READ_SECONDS:
            make = partial(self._make_patient_client, service, region, patience)
        return await self._in_thread(_pool_name(service, operation), make)

    def _make_client(self, service: str, region: str) -> Any:
        return self._make_patient_client(service, region, _READ_SECONDS)

    def _make_patient_client(self, service: str, region: str, patience: float) -> Any:
        # Loading the model of a service is slow, and a session is not thread-safe
        with self._making_client:
            key = (service, region, patience)
            if key not in self._clients:
                self._clients[key] = self._new_client(service, region, patience)
            return self._clients[key]

    def _new_client(self, service: str, region: str, patience: float) -> Any:
        try:
            client = self._session.client(
                service,
                region_name=region,
                endpoint_url=self._endpoint_url,
                config=self._config(patience),
            )
        except (importlib.import_module("botocore.exceptions").BotoCoreError, ValueError) as error:
            details = f"{_one_line(error)}; correct AWS_REGION or AWS_ENDPOINT_URL, or update boto3"
            raise AwsUnreachableError(
                type(error).__name__, details, "(client)", service=service
            ) from error
        if self._only_reads:
            refuse_writes(client)
        return client

    def _config(self, patience: float) -> Any:
        return importlib.import_module("botocore.config").Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=patience,
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=2 * self._workers,
            user_agent_extra=f"karpenter.sh-{__version__}",
        )

    def _pace(self, service: str, region: str, operation: str) -> Pace:
        key = (service, region, operation)
        if key not in self._paces:
            self._paces[key] = Pace(self._clock)
        return self._paces[key]

    def _delay(self, attempts: int) -> float:
        longest = min(_FIRST_DELAY * 2.0 ** (attempts - 1), _LONGEST_DELAY)
        return longest * self._rng.uniform(0.5, 1.0)

    def _add_token(self, client: Any, operation: str, parameters: dict[str, Any]) -> None:
        for member in client.meta.service_model.operation_model(operation).idempotent_members:
            token = uuid.UUID(int=self._rng.getrandbits(128), version=4)
            parameters.setdefault(member, str(token))


def open_calls(
    environment: Mapping[str, str],
    clock: Clock,
    rng: random.Random,
    *,
    endpoint_url: str = "",
    observe: Observer | None = None,
    only_reads: bool = False,
) -> AwsCalls:
    """Make calls with the region and credentials of the environment and the usual AWS files.

    Raises:
        ProviderError: boto3 is missing, no region is set, or there are no credentials.
    """
    try:
        boto3 = importlib.import_module("boto3")
    except ImportError as error:
        raise ProviderError(
            "provider aws needs boto3; install it with: pip install 'karpenter[aws]'"
        ) from error
    chosen = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or None
    try:
        session = boto3.Session(region_name=chosen)
        if not session.region_name:
            session = boto3.Session(region_name=_region_of_this_machine())
        credentials = session.get_credentials()
    except importlib.import_module("botocore.exceptions").BotoCoreError as error:
        raise ProviderError(f"AWS cannot be used as configured: {_one_line(error)}") from error
    if not session.region_name:
        raise ProviderError("no AWS region is set; set AWS_REGION to the region of the cluster")
    is_known = session.region_name in _regions(session)
    if not is_known and not (
        _is_well_formed(session.region_name) and _names_ec2(environment, endpoint_url)
    ):
        raise ProviderError(
            f"AWS_REGION: {session.region_name} is not a region boto3 knows; correct it, update"
            " boto3, or say where EC2 is with AWS_ENDPOINT_URL_EC2"
        )
    if credentials is None:
        raise ProviderError(
            "no AWS credentials were found; give this pod a role (EKS Pod Identity or IRSA), or set"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return AwsCalls(
        session, clock, rng, endpoint_url=endpoint_url, observe=observe, only_reads=only_reads
    )


async def check_connection(calls: Calls) -> None:
    """Check that EC2 is reachable and accepts the credentials.

    Raises:
        ProviderError: it cannot, or does not.
    """
    try:
        await calls.call("ec2", "DescribeInstanceTypes", DryRun=True)
    except AwsUnreachableError as error:
        raise ProviderError(
            f"EC2 cannot be reached in {calls.region}: {error.message}; check the region and the"
            " network"
        ) from error
    except AwsCredentialsError as error:
        raise ProviderError(
            f"AWS does not accept these credentials: {error.message}; renew them"
        ) from error
    except AwsError as error:
        if error.code != "DryRunOperation":
            raise ProviderError(
                f"EC2 refuses DescribeInstanceTypes in {calls.region}: {error.code}:"
                f" {error.message}; check the IAM policy of the controller"
            ) from error


def _call(
    client: Any, service: str, operation: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Make a call in the thread this runs in."""
    exceptions = importlib.import_module("botocore.exceptions")
    method = importlib.import_module("botocore").xform_name(operation)
    try:
        answer: dict[str, Any] = getattr(client, method)(**parameters)
    except exceptions.ClientError as error:
        details = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code, message = details.get("Code", "Unknown"), details.get("Message", "no reason given")
        text = " ".join(str(message).split())
        raise error_of(code, text, operation, status, service=service) from error
    except (exceptions.NoCredentialsError, exceptions.CredentialRetrievalError) as error:
        raise AwsCredentialsError(
            type(error).__name__, _one_line(error), operation, service=service
        ) from error
    except exceptions.ParamValidationError as error:
        raise AwsError("ParamValidation", _one_line(error), operation, service=service) from error
    except (exceptions.BotoCoreError, OSError) as error:
        raise AwsUnreachableError(
            type(error).__name__, _one_line(error), operation, service=service
        ) from error
    return answer


def _pool_name(service: str, operation: str) -> str:
    return f"{service}-reads" if is_read(operation) else service


def _region_of_this_machine() -> str | None:
    """The region from the instance metadata service; empty anywhere but on EC2."""
    fetcher = importlib.import_module("botocore.utils").IMDSRegionProvider
    session = importlib.import_module("botocore.session").Session()
    found = fetcher(session).provide()
    return None if found is None else str(found)


def _regions(session: Any) -> set[str]:
    return {
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("ec2", partition_name=partition)
    }


def _is_well_formed(region: str) -> bool:
    try:
        importlib.import_module("botocore.utils").validate_region_name(region)
    except importlib.import_module("botocore.exceptions").InvalidRegionError:
        return False
    return True


def _names_ec2(environment: Mapping[str, str], endpoint_url: str) -> bool:
    """Whether users set EC2's endpoint, as for a private region or one newer than boto3."""
    if environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return bool(endpoint_url)
    named = ("AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL")
    return bool(endpoint_url) or any(environment.get(each) for each in named)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
