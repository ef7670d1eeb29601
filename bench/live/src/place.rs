//! Names the place that a process belongs to, by its control group: a systemd unit, a pod of
//! Kubernetes, or a container. Unlike numbers of processes, these names outlive a restart.

use crate::label::Label;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Digits of a container's number, as Docker, containerd, CRI-O and Podman write it.
const CONTAINER_DIGITS: usize = 64;
/// Digits of it that these programs show.
const SHOWN_DIGITS: usize = 12;
/// Fewest characters of the number of a pod: that of a static pod has no dashes.
const LEAST_POD: usize = 32;

/// The place of a process. A pod hides its containers, whose numbers change at each restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    unit: Option<Label>,
    pod: Option<Label>,
    container: Option<Label>,
    group: Option<Label>,
}

impl Place {
    /// The place that the path of a control group names. O(length).
    #[must_use]
    pub fn of_group(path: &str) -> Self {
        let last = |of: fn(&str) -> Option<Label>| path.rsplit('/').find_map(of);
        let mut place = Self { unit: last(unit), pod: last(pod), ..Self::default() };
        place.container = last(container).filter(|_| place.pod.is_none());
        if place == Self::default() {
            let folder = path.rsplit('/').find(|it| !it.is_empty());
            place.group = Some(Label::from(folder.unwrap_or("/")));
        }
        place
    }

    /// Its labels in a metric, with the names of pods from `pods`.
    pub(crate) fn labels(&self, pods: &Pods) -> String {
        let pod = self.pod.as_ref().and_then(|uid| pods.0.get(uid.as_str()));
        let [namespace, name] = [pod.map(|it| &it.0), pod.map(|it| &it.1)];
        let uid = self.pod.as_ref();
        [
            ("unit", self.unit.as_ref()),
            ("namespace", namespace),
            ("pod", name),
            ("pod_uid", uid),
            ("container", self.container.as_ref()),
            ("group", self.group.as_ref()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!(",{name}=\"{}\"", value?)))
        .collect()
    }
}

/// Namespaces and names of the pods of a node, by their numbers.
#[derive(Debug, Default)]
pub struct Pods(BTreeMap<String, (Label, Label)>);

impl Pods {
    /// Reads the folder in which the kubelet has a folder `NAMESPACE_POD_UID` for each pod, by
    /// default `/var/log/pods`. Without this folder no pod has a name. O(pods).
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let folders = fs::read_dir(folder).into_iter().flatten().flatten();
        let pod = |name: &str| {
            let (rest, uid) = name.rsplit_once('_')?;
            let (namespace, pod) = rest.split_once('_')?;
            Some((uid.to_owned(), (Label::from(namespace), Label::from(pod))))
        };
        Self(folders.filter_map(|it| pod(it.file_name().to_str()?)).collect())
    }
}

fn unit(folder: &str) -> Option<Label> {
    let is_unit = folder.ends_with(".service") || folder.ends_with(".scope");
    (is_unit && container(folder).is_none()).then(|| folder.into())
}

/// The number of a container: `docker-NUMBER.scope`, `cri-containerd-NUMBER.scope`, or it alone.
fn container(folder: &str) -> Option<Label> {
    let number = folder.strip_suffix(".scope").unwrap_or(folder);
    let number = number.rsplit(['-', ':']).next().unwrap_or_default();
    let is_one =
        number.len() == CONTAINER_DIGITS && number.bytes().all(|it| it.is_ascii_hexdigit());
    is_one.then(|| number[..SHOWN_DIGITS].into())
}

/// The number of a pod: `kubepods-burstable-podNUMBER.slice` with `_` for each `-`, or `podNUMBER`.
fn pod(folder: &str) -> Option<Label> {
    let (_, number) = folder.strip_suffix(".slice").unwrap_or(folder).rsplit_once("pod")?;
    let number = number.replace('_', "-");
    let is_one = number.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    (is_one && number.len() >= LEAST_POD).then(|| number.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b9c1c3e-6f0a-4f0e-9d5c-2f9a4c1d7e11";

    fn labels(path: &str) -> String {
        Place::of_group(path).labels(&Pods::default())
    }

    #[test]
    fn paths_of_control_groups_name_units_pods_and_containers() {
        let number = "0123456789ab".to_owned() + &"c".repeat(52);
        let scope = format!("cri-containerd-{number}.scope");
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        for (path, expected) in [
            ("/system.slice/redis.service".to_owned(), ",unit=\"redis.service\"".to_owned()),
            ("/system.slice/g.service/worker".to_owned(), ",unit=\"g.service\"".to_owned()),
            (
                "/user.slice/user-1.slice/user@1.service/app.slice/x.service".to_owned(),
                ",unit=\"x.service\"".to_owned(),
            ),
            (
                format!("/kubepods.slice/kubepods-burstable.slice/{slice}/{scope}"),
                format!(",pod_uid=\"{UID}\""),
            ),
            (format!("/kubepods/pod{UID}/{number}"), format!(",pod_uid=\"{UID}\"")),
            (
                format!("/system.slice/docker-{number}.scope"),
                ",container=\"0123456789ab\"".to_owned(),
            ),
            (format!("/docker/{number}"), ",container=\"0123456789ab\"".to_owned()),
            (format!("/../{scope}"), ",container=\"0123456789ab\"".to_owned()),
            (
                format!("/docker/{number}/system.slice/nginx.service"),
                ",unit=\"nginx.service\",container=\"0123456789ab\"".to_owned(),
            ),
            ("/jobs/night".to_owned(), ",group=\"night\"".to_owned()),
            ("/podium/x".to_owned(), ",group=\"x\"".to_owned()),
            ("/".to_owned(), ",group=\"/\"".to_owned()),
            ("/a\"b".to_owned(), ",group=\"a?b\"".to_owned()),
        ] {
            assert_eq!(labels(&path), expected, "{path}");
        }
    }

    #[test]
    fn a_pod_gets_its_name_from_the_folder_of_its_logs() {
        let folder = std::env::temp_dir().join(format!("pods-{}", std::process::id()));
        fs::create_dir_all(folder.join(format!("shop_web-7c9f_{UID}"))).unwrap();
        fs::create_dir_all(folder.join("no pod")).unwrap();
        let pods = Pods::read(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let place = Place::of_group(&format!("/kubepods/pod{UID}/x"));
        let expected = format!(",namespace=\"shop\",pod=\"web-7c9f\",pod_uid=\"{UID}\"");
        assert_eq!(place.labels(&pods), expected);
        assert!(Pods::read(Path::new("/no/such/folder")).0.is_empty());
    }
}
